import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { WorkerView } from "./route";

const PER_PAGE = 100;
const REFRESH_MS = 5_000;

export const workersQuery = (view: WorkerView) =>
  infiniteQueryOptions({
    queryKey: keys.workers(view),
    queryFn: ({ pageParam, signal }) =>
      data(api.GET("/api/admin/workers", { params: { query: { live: view === "all" ? undefined : view === "live", cursor: pageParam, limit: PER_PAGE } }, signal })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
