import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { framedRoute } from "@/frame/routes";
import { templatesQuery } from "@/parts/pipeline/queries";
import { text } from "@/parts/search-params";
import { pipelinesQuery } from "./queries";

export interface PipelinesSearch {
  /** The template for the new run. */
  start?: string;
}

export const pipelinesRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/pipelines",
  validateSearch: (search: Record<string, unknown>): PipelinesSearch => ({
    start: text(search.start),
  }),
  loader: ({ context }) => {
    void context.queryClient.prefetchInfiniteQuery(pipelinesQuery);
    void context.queryClient.prefetchQuery(templatesQuery);
  },
  component: lazyRouteComponent(() => import("./PipelinesPage"), "PipelinesPage"),
});
