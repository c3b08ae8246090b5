import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";

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
    q: typeof search.q === "string" && search.q ? search.q : undefined,
    tenant: typeof search.tenant === "string" && search.tenant ? search.tenant : undefined,
    view: USER_VIEWS.find((view) => view === search.view),
  }),
  component: lazyRouteComponent(() => import("./UsersPage"), "UsersPage"),
});
