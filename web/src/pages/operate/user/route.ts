import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { oneOf } from "@/parts/search-params";

export const USER_TABS = ["wallet", "keys", "sessions"] as const;
export type UserTab = (typeof USER_TABS)[number];

export interface UserSearch {
  /** Default: the wallet. */
  tab?: UserTab;
}

export const userRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/users/$id",
  validateSearch: (search: Record<string, unknown>): UserSearch => ({
    tab: oneOf(search.tab, USER_TABS),
  }),
  component: lazyRouteComponent(() => import("./UserPage"), "UserPage"),
});
