import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { oneOf, text, whole } from "@/parts/search-params";

export const WORKFLOW_TABS = ["design", "versions", "settings", "requirements", "effects"] as const;
export type WorkflowTab = (typeof WORKFLOW_TABS)[number];

export interface WorkflowSearch {
  /** Default: the first tab. */
  tab?: WorkflowTab;
  /** The selected node. */
  node?: string;
  /** The shown version, and the version that it is compared with. */
  version?: number;
  against?: number;
  /** The job of the shown test run. */
  test?: string;
}

export const workflowRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/workflows/$slug",
  validateSearch: (search: Record<string, unknown>): WorkflowSearch => ({
    tab: oneOf(search.tab, WORKFLOW_TABS),
    node: text(search.node),
    version: whole(search.version),
    against: whole(search.against),
    test: text(search.test),
  }),
  component: lazyRouteComponent(() => import("./WorkflowPage"), "WorkflowPage"),
});
