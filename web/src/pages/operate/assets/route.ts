import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";

export const assetsRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/assets",
  component: lazyRouteComponent(() => import("./AssetsPage"), "AssetsPage"),
});
