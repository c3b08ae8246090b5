import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_TEXT } from "@/api/cursors";
import { keys } from "@/api/keys";
import type { RunsSearch } from "./filters";

const PER_PAGE = 30;
const WINNERS = 4;
const REFRESH_MS = 5_000;

export const runsQuery = (search: RunsSearch) =>
  infiniteQueryOptions({
    queryKey: keys.runs({ ...search }),
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET("/api/runs", {
          params: { query: { ...search, winners: WINNERS, cursor: pageParam, limit: PER_PAGE } },
          signal,
        }),
      ),
    ...BY_TEXT,
    // A list without an active run is refetched less often, for runs that start elsewhere.
    refetchInterval: ({ state }) =>
      state.data?.pages.some((page) => page.items.some((run) => run.status === "active")) ? REFRESH_MS : 6 * REFRESH_MS,
    placeholderData: keepPreviousData,
  });

/** Choices of the filter. A user has few pipelines. */
export const pipelineNamesQuery = queryOptions({
  queryKey: keys.pipelineNames,
  queryFn: async ({ signal }) =>
    (await data(api.GET("/api/pipelines", { params: { query: { limit: 200 } }, signal }))).items.map(
      ({ slug, name }) => ({ slug, name }),
    ),
  staleTime: 60_000,
});
