import { createRoute, lazyRouteComponent, notFound } from "@tanstack/react-router";
import { hasStatus } from "@/api/problems";
import { framedRoute } from "@/frame/routes";
import { runQuery } from "./queries";
import { RunNotFound } from "./RunNotFound";
import { readSearch } from "./search";

export const runRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/runs/$id",
  validateSearch: readSearch,
  loader: async ({ context, params }) => {
    try {
      await context.queryClient.ensureQueryData(runQuery(params.id));
    } catch (error) {
      // The API returns the same for a run of another user, an unknown run and an invalid id.
      if (hasStatus(error, 404) || hasStatus(error, 422)) throw notFound();
      throw error;
    }
  },
  notFoundComponent: RunNotFound,
  component: lazyRouteComponent(() => import("./RunPage"), "RunPage"),
});
