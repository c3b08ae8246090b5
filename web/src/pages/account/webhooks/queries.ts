import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_NUMBER, BY_TEXT } from "@/api/cursors";
import { keys } from "@/api/keys";

export const endpointsQuery = infiniteQueryOptions({
  queryKey: keys.webhookEndpoints,
  queryFn: ({ pageParam, signal }) =>
    data(api.GET("/api/webhook-endpoints", { params: { query: { cursor: pageParam, limit: 50 } }, signal })),
  ...BY_TEXT,
});

export const endpointQuery = (id: string) =>
  queryOptions({
    queryKey: keys.webhookEndpoint(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/webhook-endpoints/{endpoint_id}", { params: { path: { endpoint_id: id } }, signal })),
    // Whether it fails changes with each request to it.
    refetchInterval: 10_000,
  });

// A waiting delivery is sent within seconds.
const LOG_MS = 2_000;

export const deliveriesQuery = (id: string) =>
  infiniteQueryOptions({
    queryKey: keys.webhookDeliveries(id),
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET("/api/webhook-endpoints/{endpoint_id}/deliveries", {
          params: { path: { endpoint_id: id }, query: { cursor: pageParam, limit: 25 } },
          signal,
        }),
      ),
    ...BY_NUMBER,
    refetchInterval: ({ state }) =>
      state.data?.pages[0]?.items.some(({ status, attempts }) => status === "waiting" && attempts === 0)
        ? LOG_MS
        : false,
  });
