// State of a worker in one word. Pure.
import type { Schemas } from "@/api/types";
import type { Tone } from "@/design";
import { workersTexts } from "@/texts/workers";

export type Worker = Schemas["Worker"];
export type WorkerState = "revoked" | "unapproved" | "offline" | "draining" | "drained" | "busy" | "idle";

export const TONES: Record<WorkerState, Tone> = {
  revoked: "bad",
  unapproved: "warn",
  offline: "plain",
  draining: "warn",
  drained: "plain",
  busy: "run",
  idle: "ok",
};

export function stateOf(worker: Worker): WorkerState {
  if (worker.revoked_at) return "revoked";
  if (!worker.is_live) return "offline";
  if (!worker.is_approved) return "unapproved";
  if (worker.is_draining) return worker.current_load > 0 ? "draining" : "drained";
  return worker.current_load > 0 ? "busy" : "idle";
}

/**
 * The engines and their versions, as the agent reported them: `self_hosted 0.3.60`. Other agents report other values.
 */
export function versionsOf(worker: Worker): string {
  const engines = worker.capabilities.engines;
  if (typeof engines !== "object" || engines === null) return "";
  return Object.entries(engines)
    .filter(([, version]) => typeof version === "string")
    .map(([name, version]) => `${name} ${String(version)}`)
    .join(", ");
}

/** Progress as `42 %`; a word if the engine has not started or reports no progress. */
export function percentText(lease: Schemas["WorkerLease"]): string {
  if (lease.percent != null) return `${Math.floor(lease.percent)}\u00a0%`;
  return lease.run_started_at ? workersTexts.runs : workersTexts.prepares;
}

/**
 * The user or process that drained the worker, and the reason; null if it is not drained. A deleted user has an id
 * instead of a name.
 */
export function drainText(worker: Worker): string | null {
  const by = worker.drained_by;
  if (!worker.is_draining || !by) return null;
  return workersTexts.drainedBy(worker.drained_by_email ?? workersTexts.drainers[by] ?? by, worker.drain_reason);
}
