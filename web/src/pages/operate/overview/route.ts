import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";

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
    range: RANGES.find((range) => range === search.range),
    workflow: typeof search.workflow === "string" ? search.workflow : undefined,
  }),
  component: lazyRouteComponent(() => import("./OverviewPage"), "OverviewPage"),
});
