import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { framedRoute } from "@/frame/routes";

export const newTaskRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/tasks/new",
  component: lazyRouteComponent(() => import("./NewTaskPage"), "NewTaskPage"),
});
