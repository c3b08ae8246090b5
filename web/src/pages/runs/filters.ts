// Filters of the list of runs, in the form of the URL. Pure.
import type { Schemas } from "@/api/types";
import { oneOf, text } from "@/parts/search-params";

export const RUN_STATUSES = ["active", "paused", "completed", "canceled"] as const;
export type RunStatus = Schemas["RunStatus"];

export interface RunsSearch {
  status?: RunStatus;
  /** Slug of a pipeline. */
  pipeline?: string;
}

export function readSearch(search: Record<string, unknown>): RunsSearch {
  return { status: oneOf(search.status, RUN_STATUSES), pipeline: text(search.pipeline) };
}

export function isFiltered(search: RunsSearch): boolean {
  return search.status !== undefined || search.pipeline !== undefined;
}
