import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { framedRoute } from "@/frame/routes";
import { readSearch } from "./filters";
import { batchesQuery } from "./queries";

export const batchesRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/batches",
  validateSearch: readSearch,
  loaderDeps: ({ search }) => search,
  loader: ({ context, deps }) => void context.queryClient.prefetchInfiniteQuery(batchesQuery(deps)),
  component: lazyRouteComponent(() => import("./BatchesPage"), "BatchesPage"),
});
