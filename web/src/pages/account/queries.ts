import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_NUMBER, BY_TEXT } from "@/api/cursors";
import { keys } from "@/api/keys";
import { ACTIVE } from "@/api/types";

const MAX_ITEMS = 100;

/** The active jobs with their held tokens. Nested under `activeJobs`, so it is refetched when a job changes. */
export const holdsQuery = queryOptions({
  queryKey: [...keys.activeJobs, "holds"] as const,
  queryFn: async ({ signal }) =>
    (await data(api.GET("/api/library/jobs", { params: { query: { status: [...ACTIVE], limit: MAX_ITEMS } }, signal })))
      .items,
});

export const transactionsQuery = infiniteQueryOptions({
  queryKey: [...keys.transactions, "list"] as const,
  queryFn: ({ pageParam, signal }) =>
    data(api.GET("/api/wallet/transactions", { params: { query: { cursor: pageParam, limit: 50 } }, signal })),
  ...BY_NUMBER,
});

/** Nested under the wallet, so it is refetched when tokens move. */
export const ownBudgetsQuery = queryOptions({
  queryKey: keys.ownBudgets,
  queryFn: ({ signal }) => data(api.GET("/api/budgets", { signal })),
});

export const apiKeysQuery = infiniteQueryOptions({
  queryKey: keys.apiKeys,
  queryFn: ({ pageParam, signal }) =>
    data(api.GET("/api/keys", { params: { query: { cursor: pageParam, limit: MAX_ITEMS } }, signal })),
  ...BY_TEXT,
});

export const serviceKeysQuery = (tenant: string) =>
  infiniteQueryOptions({
    queryKey: keys.serviceKeys(tenant),
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET("/api/admin/tenants/{tenant_id}/service-keys", {
          params: { path: { tenant_id: tenant }, query: { cursor: pageParam, limit: MAX_ITEMS } },
          signal,
        }),
      ),
    ...BY_TEXT,
  });

export const sessionsQuery = queryOptions({
  queryKey: keys.sessions,
  queryFn: ({ signal }) => data(api.GET("/api/sessions", { signal })),
});
