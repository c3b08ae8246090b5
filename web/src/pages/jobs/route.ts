import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { framedRoute } from "@/frame/routes";

export const jobsRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/jobs",
  component: lazyRouteComponent(() => import("./JobsPage"), "JobsPage"),
});
