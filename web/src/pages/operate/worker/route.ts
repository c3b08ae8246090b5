import { createRoute, lazyRouteComponent, notFound } from "@tanstack/react-router";
import { hasStatus } from "@/api/problems";
import { operatorRoute } from "@/frame/routes";
import { workerQuery } from "./queries";

export const workerRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/workers/$id",
  loader: async ({ context, params }) => {
    try {
      await context.queryClient.ensureQueryData(workerQuery(params.id));
    } catch (error) {
      if (hasStatus(error, 404) || hasStatus(error, 422)) throw notFound();
      // The parent route decides who may see it.
      if (!hasStatus(error, 403)) throw error;
    }
  },
  component: lazyRouteComponent(() => import("./WorkerPage"), "WorkerPage"),
});
