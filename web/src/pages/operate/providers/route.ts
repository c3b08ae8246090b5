import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { oneOf } from "@/parts/search-params";

export const WINDOWS = ["24h", "30d"] as const;
export type SpendWindow = (typeof WINDOWS)[number];

export interface ProvidersSearch {
  /** Default: the last day. */
  range?: SpendWindow;
}

export const providersRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/providers",
  validateSearch: (search: Record<string, unknown>): ProvidersSearch => ({
    range: oneOf(search.range, WINDOWS),
  }),
  component: lazyRouteComponent(() => import("./ProvidersPage"), "ProvidersPage"),
});
