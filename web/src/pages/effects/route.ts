import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { effectsQuery } from "@/api/queries";
import { framedRoute } from "@/frame/routes";

export interface EffectsSearch {
  /** Words to look for. */
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
  // Started here and not awaited, so that responses and the page's script come at the same time.
  loader: ({ context }) => void context.queryClient.prefetchQuery(effectsQuery()),
  component: lazyRouteComponent(() => import("./EffectsPage"), "EffectsPage"),
});

/** A number in a URL is read as one; it was typed as words. */
function text(value: unknown): string | undefined {
  const found = typeof value === "string" || typeof value === "number" ? String(value).slice(0, 200) : "";
  return found === "" ? undefined : found;
}
