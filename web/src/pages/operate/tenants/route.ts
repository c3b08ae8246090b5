import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { text } from "@/parts/search-params";

export interface TenantsSearch {
  q?: string;
}

export const tenantsRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/tenants",
  validateSearch: (search: Record<string, unknown>): TenantsSearch => ({
    q: text(search.q),
  }),
  component: lazyRouteComponent(() => import("./TenantsPage"), "TenantsPage"),
});
