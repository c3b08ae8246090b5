import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";

export const WORKER_VIEWS = ["live", "silent", "all"] as const;
export type WorkerView = (typeof WORKER_VIEWS)[number];

export interface WorkersSearch {
  /** The live ones where it is left out. */
  view?: WorkerView;
}

export const workersRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/workers",
  validateSearch: (search: Record<string, unknown>): WorkersSearch => ({ view: WORKER_VIEWS.find((view) => view === search["view"]) }),
  component: lazyRouteComponent(() => import("./WorkersPage"), "WorkersPage"),
});
