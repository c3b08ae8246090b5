import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { framedRoute } from "@/frame/routes";
import { readSearch } from "./filters";
import { runsQuery } from "./queries";

export const runsRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/runs",
  validateSearch: readSearch,
  loaderDeps: ({ search }) => search,
  loader: ({ context, deps }) => void context.queryClient.prefetchInfiniteQuery(runsQuery(deps)),
  component: lazyRouteComponent(() => import("./RunsPage"), "RunsPage"),
});
