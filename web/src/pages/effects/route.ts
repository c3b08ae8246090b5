import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { effectsQuery } from "@/api/queries";
import { framedRoute } from "@/frame/routes";
import { text } from "@/parts/search-params";

export interface EffectsSearch {
  /** The search text. */
  q?: string;
  category?: string;
}

export const effectsRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/effects",
  validateSearch: (search: Record<string, unknown>): EffectsSearch => ({
    q: text(search.q),
    category: text(search.category),
  }),
  // The query starts here without await, so responses and the script of the page load at the same time.
  loader: ({ context }) => void context.queryClient.prefetchQuery(effectsQuery()),
  component: lazyRouteComponent(() => import("./EffectsPage"), "EffectsPage"),
});
