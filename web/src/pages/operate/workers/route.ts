import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { oneOf, text } from "@/parts/search-params";
import { WORKER_VIEWS, type WorkersSearch } from "@/parts/worker/views";

export const workersRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/workers",
  validateSearch: (search: Record<string, unknown>): WorkersSearch => ({
    view: oneOf(search.view, WORKER_VIEWS),
    q: text(search.q),
  }),
  component: lazyRouteComponent(() => import("./WorkersPage"), "WorkersPage"),
});
