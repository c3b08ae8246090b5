import { createRoute, lazyRouteComponent, notFound } from "@tanstack/react-router";
import { hasStatus } from "@/api/problems";
import { rootRoute } from "@/frame/routes";
import { sharedQuery } from "./queries";
import { ShareEnded } from "./ShareEnded";

export const shareRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/share/$token",
  loader: async ({ context, params }) => {
    try {
      await context.queryClient.ensureQueryData(sharedQuery(params.token));
    } catch (error) {
      // The page does not say whether the link expired, was revoked, was switched off or never existed.
      if ([403, 404, 410, 422].some((status) => hasStatus(error, status))) throw notFound();
      throw error;
    }
  },
  notFoundComponent: ShareEnded,
  component: lazyRouteComponent(() => import("./SharePage"), "SharePage"),
  // Until then, the skeleton of index.html.
  pendingMs: Infinity,
});
