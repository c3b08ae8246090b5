// State of a run for its badge and its progress bar. Pure.
import type { Schemas } from "@/api/types";

/** Progress of a run, from 0 to 100. A completed run may have fewer finished candidates than requested. */
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

/** Whether the run can continue only after an action of its user. */
export function needsUser(run: Pick<Schemas["RunSummary"], "status" | "reason">): boolean {
  return (
    run.status === "active" &&
    (run.reason === "approval_needed" || run.reason === "budget_spent" || run.reason === "insufficient_tokens")
  );
}
