import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";

const JOB_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const FEWEST_SIGNS = 2;
const MOST_SIGNS = 200;
const SHOWN = 5;

export function isJobId(text: string): boolean {
  return JOB_ID.test(text);
}

export const foundJobsQuery = (words: string) =>
  queryOptions({
    queryKey: ["jobs", "found", words],
    queryFn: async ({ signal }) =>
      (await data(api.GET("/api/library/jobs", { params: { query: { q: words, limit: SHOWN } }, signal }))).items,
    enabled: words.length >= FEWEST_SIGNS && words.length <= MOST_SIGNS && !isJobId(words),
    placeholderData: keepPreviousData,
    retry: false,
  });
