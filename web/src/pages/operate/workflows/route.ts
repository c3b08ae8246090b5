import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";

export const WORKFLOW_VIEWS = ["active", "inactive", "all"] as const;
export type WorkflowView = (typeof WORKFLOW_VIEWS)[number];

export interface WorkflowsSearch {
  /** Default: all workflows. */
  view?: WorkflowView;
}

export const workflowsRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/workflows",
  validateSearch: (search: Record<string, unknown>): WorkflowsSearch => ({
    view: WORKFLOW_VIEWS.find((view) => view === search.view),
  }),
  component: lazyRouteComponent(() => import("./WorkflowsPage"), "WorkflowsPage"),
});
