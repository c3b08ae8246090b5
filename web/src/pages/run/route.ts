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
      // A run of another user, one that never was, or no id at all: the API returns the same for all of them.
      if (hasStatus(error, 404) || hasStatus(error, 422)) throw notFound();
      throw error;
    }
  },
  notFoundComponent: RunNotFound,
  component: lazyRouteComponent(() => import("./RunPage"), "RunPage"),
});
