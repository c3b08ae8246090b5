import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { framedRoute } from "@/frame/routes";

export const jobRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/jobs/$id",
  component: lazyRouteComponent(() => import("./JobPage"), "JobPage"),
});
