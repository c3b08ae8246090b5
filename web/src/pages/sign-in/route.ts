import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { rootRoute } from "@/frame/routes";
import { safeNext } from "./safe-next";

interface SignInSearch {
  /** Where to go on afterwards. */
  next?: string;
  /** The session ended in the middle of something. */
  ended?: boolean;
}

export const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/sign-in",
  validateSearch: (search: Record<string, unknown>): SignInSearch => ({
    next: safeNext(search.next),
    ended: search.ended === true ? true : undefined,
  }),
  component: lazyRouteComponent(() => import("./SignInPage"), "SignInPage"),
});
