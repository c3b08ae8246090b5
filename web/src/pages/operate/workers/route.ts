import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { WORKER_VIEWS, type WorkersSearch } from "@/parts/worker/views";

const MAX_TEXT_LENGTH = 200;

export const workersRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/workers",
  validateSearch: (search: Record<string, unknown>): WorkersSearch => ({
    view: WORKER_VIEWS.find((view) => view === search.view),
    // The router reads a search for 2026 as a number.
    q:
      typeof search.q === "string" || typeof search.q === "number"
        ? String(search.q).trim().slice(0, MAX_TEXT_LENGTH) || undefined
        : undefined,
  }),
  component: lazyRouteComponent(() => import("./WorkersPage"), "WorkersPage"),
});
