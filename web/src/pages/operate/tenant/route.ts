import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import type { Schemas } from "@/api/types";
import { operatorRoute } from "@/frame/routes";
import { oneOf } from "@/parts/search-params";
import { RANGES, type Range } from "./spending/ranges";

export const TENANT_TABS = ["users", "wallet", "limits", "budgets", "spending"] as const;
export type TenantTab = (typeof TENANT_TABS)[number];

export interface TenantSearch {
  /** Default: the users. */
  tab?: TenantTab;
  /** The dimension that splits the spending. Default: the effect. */
  by?: Schemas["SpendingBy"];
  /** The days of the report. Default: 30. */
  days?: Range;
}

export const tenantRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/tenants/$id",
  validateSearch: (search: Record<string, unknown>): TenantSearch => ({
    tab: oneOf(search.tab, TENANT_TABS),
    by: oneOf(search.by, ["effect", "key", "provider", "user"] as const),
    days: oneOf(search.days, RANGES),
  }),
  component: lazyRouteComponent(() => import("./TenantPage"), "TenantPage"),
});
