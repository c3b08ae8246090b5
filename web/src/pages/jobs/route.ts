import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { framedRoute } from "@/frame/routes";
import { readSearch } from "@/parts/job/filters";
import { countsQuery, libraryQuery } from "@/parts/job/library";

export const jobsRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/jobs",
  validateSearch: readSearch,
  loaderDeps: ({ search }) => search,
  loader: ({ context, deps }) => {
    void context.queryClient.prefetchInfiniteQuery(libraryQuery(deps));
    void context.queryClient.prefetchQuery(countsQuery(deps));
  },
  component: lazyRouteComponent(() => import("./JobsPage"), "JobsPage"),
});
