import { createRoute, lazyRouteComponent, notFound } from "@tanstack/react-router";
import { hasStatus } from "@/api/problems";
import { framedRoute } from "@/frame/routes";
import { watchedJobQuery } from "@/parts/job/queries";
import { whole } from "@/parts/search-params";
import { JobNotFound } from "./JobNotFound";
import { jobEventsQuery, summaryQuery } from "./queries";

interface JobSearch {
  /** Number of the shown output, counted from 1. */
  output?: number;
}

export const jobRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/jobs/$id",
  validateSearch: (search: Record<string, unknown>): JobSearch => ({
    output: search.output === 1 ? undefined : whole(search.output),
  }),
  loader: async ({ context, params }) => {
    void context.queryClient.prefetchQuery(jobEventsQuery(params.id));
    try {
      await Promise.all([
        context.queryClient.ensureQueryData(watchedJobQuery(params.id)),
        context.queryClient.ensureQueryData(summaryQuery(params.id)),
      ]);
    } catch (error) {
      // The API returns the same for the id of another user, an unknown id and an invalid id.
      if (hasStatus(error, 404) || hasStatus(error, 422)) throw notFound();
      throw error;
    }
  },
  notFoundComponent: JobNotFound,
  component: lazyRouteComponent(() => import("./JobPage"), "JobPage"),
});
