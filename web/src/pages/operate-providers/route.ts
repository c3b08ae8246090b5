import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";

export const providersRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/providers",
  component: lazyRouteComponent(() => import("./ProvidersPage"), "ProvidersPage"),
});
