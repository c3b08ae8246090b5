import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";

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
    q: typeof search.q === "string" && search.q ? search.q : undefined,
    view: SETTING_VIEWS.find((view) => view === search.view),
  }),
  component: lazyRouteComponent(() => import("./SettingsPage"), "SettingsPage"),
});
