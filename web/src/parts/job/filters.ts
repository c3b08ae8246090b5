// Filters of the user's list of jobs, in the form of the URL and of the API. Pure: the clock is a parameter.
import type { JobStatus } from "@/api/types";
import { id, matching, oneOf, text } from "@/parts/search-params";
import { countsBy, SECONDS, SPANS, type Span, STATUSES } from "./statuses";

const FILTERS = ["active", "completed", "failed", "canceled"] as const;
export type StatusFilter = "all" | (typeof FILTERS)[number];

/** A missing value filters nothing and keeps the URL short. */
export interface JobsSearch {
  q?: string;
  status?: Exclude<StatusFilter, "all">;
  effect?: string;
  kind?: string;
  time?: Span;
  run?: string;
  batch?: string;
}

/** Reads any URL. Invalid values are left out. */
export function readSearch(raw: Record<string, unknown>): JobsSearch {
  // Every key is present, even with undefined, because the router keeps keys that are missing here.
  return {
    q: text(raw.q),
    status: oneOf(raw.status, FILTERS),
    effect: matching(raw.effect, /^[a-z0-9][a-z0-9_-]{0,62}$/),
    kind: matching(raw.kind, /^[a-z][a-z0-9_]{0,31}$/),
    time: oneOf(raw.time, SPANS),
    run: id(raw.run),
    batch: id(raw.batch),
  };
}

export function isFiltered(search: JobsSearch): boolean {
  return Object.values(search).some((value) => value !== undefined);
}

export function toQuery(search: JobsSearch, now: Date) {
  return {
    q: search.q,
    status: search.status ? [...STATUSES[search.status]] : undefined,
    effect: search.effect ? [search.effect] : undefined,
    kind: search.kind ? [search.kind] : undefined,
    run_id: search.run,
    batch_id: search.batch,
    created_from: search.time ? new Date(now.getTime() - SECONDS[search.time] * 1000).toISOString() : undefined,
  };
}

/** Number of jobs per status filter. */
export function countsOf(byStatus: Partial<Record<JobStatus, number>>): Record<StatusFilter, number> {
  const counts = countsBy(FILTERS, (status) => byStatus[status] ?? 0);
  return { ...counts, all: Object.values(counts).reduce((total, count) => total + count, 0) };
}
