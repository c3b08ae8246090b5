import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_TEXT } from "@/api/cursors";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";

export type Budget = Schemas["Budget"];
const PER_PAGE = 50;
const REFRESH_MS = 10_000;
const MAX_KEYS = 200;

export const budgetsQuery = (tenant: string) =>
  infiniteQueryOptions({
    queryKey: keys.tenantBudgets(tenant),
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET("/api/admin/tenants/{tenant_id}/budgets", {
          params: { path: { tenant_id: tenant }, query: { cursor: pageParam, limit: PER_PAGE } },
          signal,
        }),
      ),
    ...BY_TEXT,
    refetchInterval: REFRESH_MS,
  });

/** The keys that a budget can count: those of a user, or the service keys of the tenant. */
export const keyChoicesQuery = (tenant: string, user: string | null) =>
  queryOptions({
    queryKey: [...keys.tenantBudgets(tenant), "keys", user] as const,
    queryFn: async ({ signal }) => {
      const query = { limit: MAX_KEYS };
      const found =
        user === null
          ? await data(
              api.GET("/api/admin/tenants/{tenant_id}/service-keys", {
                params: { path: { tenant_id: tenant }, query },
                signal,
              }),
            )
          : await data(
              api.GET("/api/admin/users/{user_id}/keys", { params: { path: { user_id: user }, query }, signal }),
            );
      return found.items.filter((key) => !key.revoked_at).map(({ id, name, prefix }) => ({ id, name, prefix }));
    },
  });
