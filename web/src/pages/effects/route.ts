import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { framedRoute } from "@/frame/routes";

export const effectsRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/effects",
  component: lazyRouteComponent(() => import("./EffectsPage"), "EffectsPage"),
});
