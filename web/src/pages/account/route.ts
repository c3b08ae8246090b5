import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { framedRoute } from "@/frame/routes";
import { oneOf } from "@/parts/search-params";

export const ACCOUNT_TABS = ["wallet", "keys", "webhooks", "security", "appearance"] as const;
export type AccountTab = (typeof ACCOUNT_TABS)[number];

export const accountRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/account",
  validateSearch: (search: Record<string, unknown>): { tab?: AccountTab; endpoint?: string } => ({
    tab: oneOf(search.tab, ACCOUNT_TABS),
    endpoint: typeof search.endpoint === "string" ? search.endpoint : undefined,
  }),
  component: lazyRouteComponent(() => import("./AccountPage"), "AccountPage"),
});
