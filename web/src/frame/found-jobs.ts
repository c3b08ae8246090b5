import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";

const JOB_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const MIN_CHARACTERS = 2;
const MAX_CHARACTERS = 200;
const SHOWN = 5;

export function isJobId(text: string): boolean {
  return JOB_ID.test(text);
}

export const foundJobsQuery = (words: string) =>
  queryOptions({
    queryKey: ["jobs", "found", words],
    queryFn: async ({ signal }) =>
      (await data(api.GET("/api/library/jobs", { params: { query: { q: words, limit: SHOWN } }, signal }))).items,
    enabled: words.length >= MIN_CHARACTERS && words.length <= MAX_CHARACTERS && !isJobId(words),
    placeholderData: keepPreviousData,
    retry: false,
  });
