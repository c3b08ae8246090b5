import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";

// The counts of a batch are one row. Its jobs change with the stream.
const REFRESH_MS = 2000;

export const batchQuery = (id: string) =>
  queryOptions({
    queryKey: keys.batch(id),
    queryFn: ({ signal }) => data(api.GET("/api/batches/{batch_id}", { params: { path: { batch_id: id } }, signal })),
    refetchInterval: ({ state }) => (state.data?.status === "running" ? REFRESH_MS : false),
  });

/** The values of the items, which never change. */
export const batchValuesQuery = (id: string) =>
  queryOptions({
    queryKey: keys.batchValues(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/batches/{batch_id}/values", { params: { path: { batch_id: id } }, signal })),
    staleTime: Infinity,
  });
