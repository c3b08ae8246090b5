// Bulk actions: the jobs that each can change, and the effect on tokens. Pure.
import type { JobStatus, Schemas } from "@/api/types";
import { sumOf, type Totals } from "@/parts/job/all-jobs-filters";

export type BulkAction = Schemas["BulkAction"];
export type ActionKind = Schemas["BulkActionKind"];
export type OperatedJob = Schemas["OperatedJob"];

export const KINDS: readonly ActionKind[] = ["retry", "cancel", "set_priority"];
export const FITTING: Record<ActionKind, readonly JobStatus[]> = {
  retry: ["failed", "expired"],
  cancel: ["pending", "queued", "processing"],
  set_priority: ["pending", "queued"],
};

/** The jobs that an action would change, and their cost. */
export interface Scope {
  jobs: number;
  tokens: number;
  /** There are more jobs that the server did not count. */
  isPartial: boolean;
}

export function scopeOfRows(kind: ActionKind, rows: readonly OperatedJob[]): Scope {
  const fitting = rows.filter((job) => FITTING[kind].includes(job.status));
  return { jobs: fitting.length, tokens: fitting.reduce((sum, job) => sum + job.cost, 0), isPartial: false };
}

export function scopeOfTotals(kind: ActionKind, totals: Totals): Scope {
  return { ...sumOf(totals, FITTING[kind]), isPartial: totals.is_partial };
}

/** 0 to 100; null while the server still collects the jobs. */
export function percentOf(action: BulkAction): number | null {
  if (!action.is_collected && action.state === "running") return null;
  return action.total === 0 ? 100 : (100 * (action.done + action.refused)) / action.total;
}
