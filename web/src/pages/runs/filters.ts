// Filters of the list of runs, in the form of the URL. Pure.
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
