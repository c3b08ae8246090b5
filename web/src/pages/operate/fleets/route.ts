import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";

export const fleetsRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/fleets",
  component: lazyRouteComponent(() => import("./FleetsPage"), "FleetsPage"),
});
