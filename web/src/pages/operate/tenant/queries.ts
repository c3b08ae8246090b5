import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";

const REFRESH_MS = 10_000;

export const tenantQuery = (id: string) =>
  queryOptions({
    queryKey: keys.tenant(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/tenants/{tenant_id}", { params: { path: { tenant_id: id } }, signal })),
  });

export const weightQuery = (id: string) =>
  queryOptions({
    queryKey: keys.tenantWeight(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/tenants/{tenant_id}/share", { params: { path: { tenant_id: id } }, signal })),
    refetchInterval: REFRESH_MS,
  });

export const quotasQuery = (id: string) =>
  queryOptions({
    queryKey: keys.tenantQuotas(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/tenants/{tenant_id}/quotas", { params: { path: { tenant_id: id } }, signal })),
  });
