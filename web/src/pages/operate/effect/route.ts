import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { text } from "@/parts/search-params";

export interface EffectRecordSearch {
  /** How the preview is made. Default: by upload. */
  preview?: "render";
  /** The job of the shown test run. */
  test?: string;
}

export const effectRecordRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/effects/$slug",
  validateSearch: (search: Record<string, unknown>): EffectRecordSearch => ({
    preview: search.preview === "render" ? "render" : undefined,
    test: text(search.test),
  }),
  component: lazyRouteComponent(() => import("./EffectRecordPage"), "EffectRecordPage"),
});
