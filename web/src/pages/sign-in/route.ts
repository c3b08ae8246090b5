import { createRoute, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { rootRoute } from "@/frame/routes";
import { onceToken, signInOnce } from "./once";
import { offeredQuery } from "./queries";
import { safeNext } from "./safe-next";

interface SignInSearch {
  /** Page to open after the sign-in. */
  next?: string;
  /** The session ended while the user worked. */
  ended?: boolean;
  /** A one-time link was used before. */
  used?: boolean;
}

export const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/sign-in",
  validateSearch: (search: Record<string, unknown>): SignInSearch => ({
    next: safeNext(search.next),
    ended: search.ended === true ? true : undefined,
    used: search.used === true ? true : undefined,
  }),
  beforeLoad: async ({ context, location }) => {
    const token = onceToken(location.hash);
    if (token === null) return;
    const isSignedIn = await signInOnce(context.queryClient, token);
    throw redirect(
      isSignedIn ? { to: "/effects", replace: true } : { to: "/sign-in", search: { used: true }, replace: true },
    );
  },
  // Loaded before the page is drawn, so the page does not move.
  loader: ({ context }) => context.queryClient.prefetchQuery(offeredQuery),
  component: lazyRouteComponent(() => import("./SignInPage"), "SignInPage"),
});
