import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";

const REFRESH_MS = 5_000;
const SLOW_REFRESH_MS = 60_000;
const SHOWN_EVENTS = 20;

export const workerQuery = (id: string) =>
  queryOptions({
    queryKey: keys.worker(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/workers/{worker_id}", { params: { path: { worker_id: id } }, signal })),
    refetchInterval: REFRESH_MS,
  });

/** The server adds a sample once a minute. */
export const utilisationQuery = (id: string) =>
  queryOptions({
    queryKey: keys.workerUtilisation(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/workers/{worker_id}/utilisation", { params: { path: { worker_id: id } }, signal })),
    refetchInterval: SLOW_REFRESH_MS,
  });

export const workerEventsQuery = (id: string) =>
  queryOptions({
    queryKey: keys.workerEvents(id),
    queryFn: ({ signal }) =>
      data(
        api.GET("/api/admin/worker-audit-logs", { params: { query: { worker_id: id, limit: SHOWN_EVENTS } }, signal }),
      ),
    refetchInterval: SLOW_REFRESH_MS,
  });
