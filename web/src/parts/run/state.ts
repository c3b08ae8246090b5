// What a run does now, for its badge and its bar. Pure.
import type { Schemas } from "@/api/types";

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
