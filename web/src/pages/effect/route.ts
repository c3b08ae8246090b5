import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { framedRoute } from "@/frame/routes";

export const effectRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/effects/$slug",
  component: lazyRouteComponent(() => import("./EffectPage"), "EffectPage"),
});
