import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";

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

function text(value: unknown): string | undefined {
  return typeof value === "string" || typeof value === "number" ? String(value) : undefined;
}

export const effectRecordsRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/effects",
  validateSearch: (search: Record<string, unknown>): EffectsSearch => ({
    view: EFFECT_VIEWS.find((view) => view === search.view),
    category: text(search.category),
    q: text(search.q) || undefined,
    new: text(search.new),
  }),
  component: lazyRouteComponent(() => import("./EffectRecordsPage"), "EffectRecordsPage"),
});
