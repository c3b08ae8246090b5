import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_TEXT } from "@/api/cursors";
import { keys } from "@/api/keys";
import type { WorkerView } from "./views";

const PER_PAGE = 100;
const REFRESH_MS = 5_000;

/** A missing filter matches every worker. */
const FILTERS: Record<WorkerView, { live?: boolean; busy?: boolean }> = {
  live: { live: true },
  busy: { busy: true },
  idle: { busy: false },
  silent: { live: false },
  all: {},
};

export const workersQuery = (view: WorkerView, q?: string) =>
  infiniteQueryOptions({
    queryKey: keys.workers(view, q),
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET("/api/admin/workers", {
          params: { query: { ...FILTERS[view], q, cursor: pageParam, limit: PER_PAGE } },
          signal,
        }),
      ),
    ...BY_TEXT,
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
