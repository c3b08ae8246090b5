import { createRoute, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { readSearch, startOf } from "@/parts/job/all-jobs-filters";

export const allJobsRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/jobs",
  validateSearch: readSearch,
  beforeLoad: ({ search: { time, ...search } }) => {
    if (time)
      throw redirect({
        to: "/operate/jobs",
        search: { ...search, from: search.from ?? startOf(time, new Date()) },
        replace: true,
      });
  },
  component: lazyRouteComponent(() => import("./AllJobsPage"), "AllJobsPage"),
});
