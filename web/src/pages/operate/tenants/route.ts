import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";

export interface TenantsSearch {
  q?: string;
}

export const tenantsRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/tenants",
  validateSearch: (search: Record<string, unknown>): TenantsSearch => ({
    q: typeof search.q === "string" && search.q ? search.q : undefined,
  }),
  component: lazyRouteComponent(() => import("./TenantsPage"), "TenantsPage"),
});
