import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { oneOf, text } from "@/parts/search-params";

export const SETTING_VIEWS = ["all", "changed"] as const;
export type SettingView = (typeof SETTING_VIEWS)[number];

export interface SettingsSearch {
  q?: string;
  /** Default: all settings. */
  view?: SettingView;
}

export const settingsRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/settings",
  validateSearch: (search: Record<string, unknown>): SettingsSearch => ({
    q: text(search.q),
    view: oneOf(search.view, SETTING_VIEWS),
  }),
  component: lazyRouteComponent(() => import("./SettingsPage"), "SettingsPage"),
});
