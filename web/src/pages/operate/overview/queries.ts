import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Range } from "./route";

/** The server samples once a minute and counts every ten seconds. */
const REFRESH_MS = 10_000;

export const statisticsQuery = (range: Range, workflow: string | undefined) =>
  queryOptions({
    queryKey: keys.statistics(range, workflow),
    queryFn: ({ signal }) => data(api.GET("/api/admin/statistics", { params: { query: { range, workflow } }, signal })),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
