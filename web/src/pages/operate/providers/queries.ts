import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_TEXT } from "@/api/cursors";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";

export type Provider = Schemas["Provider"];
export type ConcurrencyLimit = Schemas["ConcurrencyLimit"];
export type ProviderSpend = Schemas["ProviderSpend"];
export type ProviderSpending = Schemas["ProviderSpending"];
const PER_PAGE = 100;
const REFRESH_MS = 5_000;
// The server counts once a minute.
const SPEND_MS = 60_000;

export const providersQuery = queryOptions({
  queryKey: keys.operatedProviders,
  queryFn: async ({ signal }) => (await data(api.GET("/api/admin/providers", { signal }))).providers,
  refetchInterval: REFRESH_MS,
});

export const spendQuery = queryOptions({
  queryKey: keys.providerSpend,
  queryFn: ({ signal }) => data(api.GET("/api/admin/provider-spend", { signal })),
  refetchInterval: SPEND_MS,
});

export const limitsQuery = infiniteQueryOptions({
  queryKey: keys.concurrencyLimits,
  queryFn: ({ pageParam, signal }) =>
    data(
      api.GET("/api/admin/concurrency-limits", { params: { query: { cursor: pageParam, limit: PER_PAGE } }, signal }),
    ),
  ...BY_TEXT,
  refetchInterval: REFRESH_MS,
});
