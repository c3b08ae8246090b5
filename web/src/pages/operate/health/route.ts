import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";

export const healthRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/health",
  component: lazyRouteComponent(() => import("./HealthPage"), "HealthPage"),
});
