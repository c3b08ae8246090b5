import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { framedRoute } from "@/frame/routes";

export const accountRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/account",
  component: lazyRouteComponent(() => import("./AccountPage"), "AccountPage"),
});
