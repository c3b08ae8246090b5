import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { oneOf, text } from "@/parts/search-params";

export const USER_VIEWS = ["users", "invitations", "mails"] as const;
export type UserView = (typeof USER_VIEWS)[number];

export interface UsersSearch {
  q?: string;
  /** Slug of a tenant. */
  tenant?: string;
  /** Default: the users. */
  view?: UserView;
}

export const usersRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/users",
  validateSearch: (search: Record<string, unknown>): UsersSearch => ({
    q: text(search.q),
    tenant: text(search.tenant),
    view: oneOf(search.view, USER_VIEWS),
  }),
  component: lazyRouteComponent(() => import("./UsersPage"), "UsersPage"),
});
