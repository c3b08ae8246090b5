import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { rootRoute } from "@/frame/routes";

export const shareRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/share/$token",
  component: lazyRouteComponent(() => import("./SharePage"), "SharePage"),
});
