import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { oneOf, text } from "@/parts/search-params";

export const RANGES = ["1h", "24h", "30d"] as const;
export type Range = (typeof RANGES)[number];

export interface OverviewSearch {
  /** Default: the last hour. */
  range?: Range;
  workflow?: string;
}

export const operateRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate",
  validateSearch: (search: Record<string, unknown>): OverviewSearch => ({
    range: oneOf(search.range, RANGES),
    workflow: text(search.workflow),
  }),
  component: lazyRouteComponent(() => import("./OverviewPage"), "OverviewPage"),
});
