import { createRoute, lazyRouteComponent, notFound } from "@tanstack/react-router";
import { hasStatus } from "@/api/problems";
import { framedRoute } from "@/frame/routes";
import { libraryQuery } from "@/parts/job/library";
import { BatchNotFound } from "./BatchNotFound";
import { batchQuery } from "./queries";

export const batchRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/batches/$id",
  loader: async ({ context, params }) => {
    void context.queryClient.prefetchInfiniteQuery(libraryQuery({ batch: params.id }));
    try {
      await context.queryClient.ensureQueryData(batchQuery(params.id));
    } catch (error) {
      if (hasStatus(error, 404) || hasStatus(error, 422)) throw notFound();
      throw error;
    }
  },
  notFoundComponent: BatchNotFound,
  component: lazyRouteComponent(() => import("./BatchPage"), "BatchPage"),
});
