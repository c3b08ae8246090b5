import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_TEXT } from "@/api/cursors";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";

export type Tenant = Schemas["Tenant"];
export type TenantFigures = Schemas["TenantFigures"];
const PER_PAGE = 50;
const REFRESH_MS = 10_000;

export const tenantsQuery = (search: string) =>
  infiniteQueryOptions({
    queryKey: keys.tenants(search),
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET("/api/admin/tenants", { params: { query: { search, cursor: pageParam, limit: PER_PAGE } }, signal }),
      ),
    ...BY_TEXT,
    placeholderData: keepPreviousData,
  });

/** The figures come from the pools, so the list does not wait for them. */
export const figuresQuery = (ids: readonly string[]) =>
  queryOptions({
    queryKey: keys.tenantFigures(ids),
    queryFn: async ({ signal }) =>
      (await data(api.GET("/api/admin/tenant-figures", { params: { query: { tenant_id: [...ids] } }, signal }))).items,
    refetchInterval: REFRESH_MS,
    enabled: ids.length > 0,
  });

export const poolsQuery = queryOptions({
  queryKey: keys.pools,
  queryFn: async ({ signal }) => (await data(api.GET("/api/admin/pools", { signal }))).pools,
});
