// The routes that pages hang below: with the frame for people who are signed in, or without.
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

/** Every other path. With the frame, from which people find their way back. */
export const otherRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "$",
  component: NotFound,
});

/** The pages of operators. Other users see a message; the API refuses them in any case. */
export const operatorRoute = createRoute({
  getParentRoute: () => framedRoute,
  id: "operator",
  component: lazyRouteComponent(() => import("./OperatorArea"), "OperatorArea"),
});

export const framedRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: "framed",
  component: lazyRouteComponent(() => import("./Frame"), "Frame"),
  beforeLoad: async ({ context, location }) => {
    try {
      await context.queryClient.ensureQueryData(meQuery);
    } catch (error) {
      if (!hasStatus(error, 401)) throw error;
      throw redirect({ to: "/sign-in", search: { next: location.href }, replace: true });
    }
  },
});
