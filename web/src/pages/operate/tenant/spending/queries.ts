import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import type { Range } from "./ranges";
import { periodOf, sinceOf } from "./series";

const REFRESH_MS = 60_000;

/** The question of a report. Its days are those of the reader. */
export function reportOf(by: Schemas["SpendingBy"], days: Range, now: Date) {
  return {
    by,
    period: periodOf(days),
    time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    since: sinceOf(days, now).toISOString(),
  };
}

export const spendingQuery = (tenant: string, by: Schemas["SpendingBy"], days: Range) =>
  queryOptions({
    queryKey: keys.tenantSpending(tenant, { by, days }),
    queryFn: ({ signal }) =>
      data(
        api.GET("/api/admin/tenants/{tenant_id}/spending", {
          params: { path: { tenant_id: tenant }, query: reportOf(by, days, new Date()) },
          signal,
        }),
      ),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
