// The filters of the list of runs, as they are in the URL. Pure.
import type { Schemas } from "@/api/types";

export const RUN_STATUSES = ["active", "paused", "completed", "canceled"] as const;
export type RunStatus = Schemas["RunStatus"];

export interface RunsSearch {
  status?: RunStatus;
  /** Slug of a pipeline. */
  pipeline?: string;
}

export function readSearch(search: Record<string, unknown>): RunsSearch {
  const pipeline = search.pipeline;
  return {
    status: RUN_STATUSES.find((status) => status === search.status),
    pipeline: typeof pipeline === "string" && pipeline !== "" ? pipeline : undefined,
  };
}

export function isFiltered(search: RunsSearch): boolean {
  return search.status !== undefined || search.pipeline !== undefined;
}

/** How far a run is, from 0 to 100. A completed run may have fewer finished candidates than it wanted. */
export function percentOf(run: Pick<Schemas["RunSummary"], "leaves" | "target_leaves">): number {
  return Math.min(100, (100 * run.leaves) / Math.max(run.target_leaves, 1));
}

export type RunTone = "run" | "warn" | "ok" | "plain" | "bad";

/** An active run that waits for its user looks different from one that works. */
export function toneOf(run: Pick<Schemas["RunSummary"], "status" | "reason">): RunTone {
  if (run.status === "completed") return "ok";
  if (run.status === "canceled") return "plain";
  if (run.reason === "base_failed" || run.reason === "branches_failed" || run.reason === "internal_error") return "bad";
  return run.status === "paused" || needsUser(run) ? "warn" : "run";
}

/** Whether only its user can make the run go on. */
export function needsUser(run: Pick<Schemas["RunSummary"], "status" | "reason">): boolean {
  return (
    run.status === "active" &&
    (run.reason === "approval_needed" || run.reason === "budget_spent" || run.reason === "insufficient_tokens")
  );
}
