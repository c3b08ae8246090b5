import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";

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

function number(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && Number(value) > 0 ? Number(value) : undefined;
}

export const workflowRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/workflows/$slug",
  validateSearch: (search: Record<string, unknown>): WorkflowSearch => ({
    tab: WORKFLOW_TABS.find((tab) => tab === search.tab),
    // Ids of nodes look like numbers, and the router does not distinguish them.
    node: typeof search.node === "string" || typeof search.node === "number" ? String(search.node) : undefined,
    version: number(search.version),
    against: number(search.against),
    test: typeof search.test === "string" ? search.test : undefined,
  }),
  component: lazyRouteComponent(() => import("./WorkflowPage"), "WorkflowPage"),
});
