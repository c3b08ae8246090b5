import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";

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
    tab: (["payload", "events", "money"] as const).find((tab) => tab === search.tab),
    attempt: Number.isInteger(search.attempt) && Number(search.attempt) > 0 ? Number(search.attempt) : undefined,
    // The router reads an id of digits as a number.
    node:
      typeof search.node === "string" || typeof search.node === "number"
        ? String(search.node).slice(0, MAX_NODE_LENGTH)
        : undefined,
    all: search.all === true ? true : undefined,
    file: typeof search.file === "string" ? search.file.slice(0, MAX_FILE_LENGTH) : undefined,
  }),
  component: lazyRouteComponent(() => import("./OperatorJobPage"), "OperatorJobPage"),
});
