import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { oneOf, text } from "@/parts/search-params";

export const EFFECT_VIEWS = ["all", "published", "drafts"] as const;
export type EffectView = (typeof EFFECT_VIEWS)[number];

export interface EffectsSearch {
  /** Default: all states. */
  view?: EffectView;
  category?: string;
  q?: string;
  /** Opens the dialog for a new effect of this workflow; empty: without a workflow. */
  new?: string;
}

export const effectRecordsRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/effects",
  validateSearch: (search: Record<string, unknown>): EffectsSearch => ({
    view: oneOf(search.view, EFFECT_VIEWS),
    // Effects without a category are a choice, too.
    category: search.category === "" ? "" : text(search.category),
    q: text(search.q),
    new: search.new === "" ? "" : text(search.new),
  }),
  component: lazyRouteComponent(() => import("./EffectRecordsPage"), "EffectRecordsPage"),
});
