import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { oneOf } from "@/parts/search-params";

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
    view: oneOf(search.view, WORKFLOW_VIEWS),
  }),
  component: lazyRouteComponent(() => import("./WorkflowsPage"), "WorkflowsPage"),
});
