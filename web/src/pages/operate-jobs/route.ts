import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { readSearch } from "./filters";

export const allJobsRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/jobs",
  validateSearch: readSearch,
  component: lazyRouteComponent(() => import("./AllJobsPage"), "AllJobsPage"),
});
