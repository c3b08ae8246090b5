// Parent routes of pages: with the frame for signed-in users, or without it.
import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { hasStatus } from "@/api/problems";
import { meQuery } from "@/api/queries";
import { NotFound } from "./NotFound";

export const rootRoute = createRootRouteWithContext<{ queryClient: QueryClient }>()();

export const homeRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/effects", replace: true });
  },
});

/** Matches every other path. It keeps the frame, so people find their way back. */
export const otherRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "$",
  component: NotFound,
});

/** Operator pages. Other users see a message, and the API refuses their requests in any case. */
export const operatorRoute = createRoute({
  getParentRoute: () => framedRoute,
  id: "operator",
  component: lazyRouteComponent(() => import("./OperatorArea"), "OperatorArea"),
});

export const framedRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: "framed",
  component: lazyRouteComponent(() => import("./Frame"), "Frame"),
  // A skeleton of this route would stay until the whole page is ready. The frame appears once the user is known; until
  // then, the skeleton of index.html.
  pendingMs: Infinity,
  beforeLoad: async ({ context, location }) => {
    try {
      await context.queryClient.ensureQueryData(meQuery);
    } catch (error) {
      if (!hasStatus(error, 401)) throw error;
      throw redirect({ to: "/sign-in", search: { next: location.href }, replace: true });
    }
  },
});
