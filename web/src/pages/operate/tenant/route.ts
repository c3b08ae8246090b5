import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { oneOf } from "@/parts/search-params";

export const TENANT_TABS = ["users", "limits"] as const;
export type TenantTab = (typeof TENANT_TABS)[number];

export interface TenantSearch {
  /** Default: the users. */
  tab?: TenantTab;
}

export const tenantRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/tenants/$id",
  validateSearch: (search: Record<string, unknown>): TenantSearch => ({
    tab: oneOf(search.tab, TENANT_TABS),
  }),
  component: lazyRouteComponent(() => import("./TenantPage"), "TenantPage"),
});
