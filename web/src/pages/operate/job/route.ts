import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { oneOf, text, whole } from "@/parts/search-params";

export const TABS = ["graph", "payload", "events", "money"] as const;
export type Tab = (typeof TABS)[number];

export interface OperatorJobSearch {
  /** Default: the graph. */
  tab?: Exclude<Tab, "graph">;
  /** Shows only this attempt. */
  attempt?: number;
  /** The selected node of the graph. */
  node?: string;
  /** Shows all nodes of the waterfall, not only the longest. */
  all?: true;
  /** The file in the player. Default: the first file. */
  file?: string;
}

const MAX_NODE_LENGTH = 100;
const MAX_FILE_LENGTH = 36;

export const operatorJobRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/jobs/$id",
  validateSearch: (search: Record<string, unknown>): OperatorJobSearch => ({
    tab: oneOf(search.tab, ["payload", "events", "money"] as const),
    attempt: whole(search.attempt),
    node: text(search.node, MAX_NODE_LENGTH),
    all: search.all === true ? true : undefined,
    file: text(search.file, MAX_FILE_LENGTH),
  }),
  component: lazyRouteComponent(() => import("./OperatorJobPage"), "OperatorJobPage"),
});
