import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_TEXT } from "@/api/cursors";
import { keys } from "@/api/keys";
import { type JobsSearch, toQuery } from "./filters";

export const PAGE_SIZE = 100;

export const libraryQuery = (search: JobsSearch) =>
  infiniteQueryOptions({
    queryKey: keys.library({ ...search }),
    queryFn: ({ pageParam, signal }) => fetchPage(search, pageParam, signal),
    ...BY_TEXT,
    // The stream changes rows in place. A refetch would read every loaded page again.
    staleTime: Infinity,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    placeholderData: keepPreviousData,
  });

export function fetchPage(search: JobsSearch, cursor: string | undefined, signal?: AbortSignal) {
  return data(
    api.GET("/api/library/jobs", {
      params: { query: { ...toQuery(search, new Date()), cursor, limit: PAGE_SIZE } },
      signal,
    }),
  );
}

export function fetchSummary(id: string) {
  return data(api.GET("/api/library/jobs/{job_id}", { params: { path: { job_id: id } } }));
}

export const countsQuery = (search: JobsSearch) => {
  // The response does not depend on the status.
  const { status: _status, ...rest } = search;
  return queryOptions({
    queryKey: keys.counts({ ...rest }),
    queryFn: ({ signal }) => {
      const { status: _all, ...query } = toQuery(rest, new Date());
      return data(api.GET("/api/library/counts", { params: { query }, signal }));
    },
    placeholderData: keepPreviousData,
  });
};
