import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_TEXT } from "@/api/cursors";
import { keys } from "@/api/keys";
import type { BatchesSearch } from "./filters";

const PER_PAGE = 30;
const REFRESH_MS = 3_000;

export const batchesQuery = (search: BatchesSearch) =>
  infiniteQueryOptions({
    queryKey: keys.batches({ ...search }),
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET("/api/batches", {
          params: {
            query: {
              status: search.status,
              effect: search.effect ? [search.effect] : undefined,
              client_reference: search.reference,
              cursor: pageParam,
              limit: PER_PAGE,
            },
          },
          signal,
        }),
      ),
    ...BY_TEXT,
    // A list without a running batch is refetched less often, for batches that are submitted elsewhere.
    refetchInterval: ({ state }) =>
      state.data?.pages.some((page) => page.items.some((batch) => batch.status === "running"))
        ? REFRESH_MS
        : 10 * REFRESH_MS,
    placeholderData: keepPreviousData,
  });
