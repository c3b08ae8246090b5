import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";

export const TABS = ["graph", "payload", "events", "money"] as const;
export type Tab = (typeof TABS)[number];

export interface OperatorJobSearch {
  /** The graph where it is left out. */
  tab?: Exclude<Tab, "graph">;
  /** The attempt that is shown alone. */
  attempt?: number;
  /** The selected node of the graph. */
  node?: string;
  /** All nodes of the waterfall, not the longest only. */
  all?: true;
  /** The file in the player: the first one where it is left out. */
  file?: string;
}

const LONGEST_NODE = 100;
const LONGEST_FILE = 36;

export const operatorJobRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/jobs/$id",
  validateSearch: (search: Record<string, unknown>): OperatorJobSearch => ({
    tab: (["payload", "events", "money"] as const).find((tab) => tab === search.tab),
    attempt: Number.isInteger(search.attempt) && Number(search.attempt) > 0 ? Number(search.attempt) : undefined,
    // An id of digits alone comes out of the URL as a number.
    node:
      typeof search.node === "string" || typeof search.node === "number"
        ? String(search.node).slice(0, LONGEST_NODE)
        : undefined,
    all: search.all === true ? true : undefined,
    file: typeof search.file === "string" ? search.file.slice(0, LONGEST_FILE) : undefined,
  }),
  component: lazyRouteComponent(() => import("./OperatorJobPage"), "OperatorJobPage"),
});
