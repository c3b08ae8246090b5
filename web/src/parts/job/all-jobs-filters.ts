// Filters of the list of all jobs, in the form of the URL and of the API. Pure: the clock is a parameter.
import type { JobStatus, Schemas } from "@/api/types";
import { utcOf } from "@/parts/local-times";
import { id, matching, oneOf, text } from "@/parts/search-params";
import { countsBy, SECONDS, SPANS, type Span, STATUSES } from "./statuses";

export const VIEWS = ["jobs", "errors", "actions"] as const;
export type View = (typeof VIEWS)[number];
const FILTERS = ["active", "queued", "running", "completed", "failed", "canceled"] as const;
export type StatusFilter = "all" | (typeof FILTERS)[number];
export type Totals = Schemas["JobTotals"];
export type Wanted = Partial<Schemas["JobFilter"]>;

/** A missing value filters nothing and keeps the URL short. */
export interface AllJobsSearch {
  view?: Exclude<View, "jobs">;
  q?: string;
  status?: Exclude<StatusFilter, "all">;
  tenant?: string;
  user?: string;
  run?: string;
  workflow?: string;
  effect?: string;
  kind?: string;
  worker?: string;
  /** Fingerprint of an error. */
  error?: string;
  /** Times in UTC, never relative to now, because an old link must show the same jobs. */
  from?: string;
  until?: string;
  /** Shortcut in links that were written by hand. The route replaces it with `from`. */
  time?: Span;
}

/** Reads any URL. Invalid values are left out. */
export function readSearch(raw: Record<string, unknown>): AllJobsSearch {
  // Every key is present, even with undefined, because the router keeps keys that are missing here.
  return {
    view: oneOf(raw.view, ["errors", "actions"] as const),
    q: text(raw.q),
    status: oneOf(raw.status, FILTERS),
    tenant: id(raw.tenant),
    user: id(raw.user),
    run: id(raw.run),
    workflow: matching(raw.workflow, /^[a-z0-9][a-z0-9_:.-]{0,127}$/),
    effect: matching(raw.effect, /^[a-z0-9][a-z0-9_-]{0,62}$/),
    kind: matching(raw.kind, /^[a-z][a-z0-9_]{0,31}$/),
    worker: text(raw.worker),
    // The router reads a fingerprint of digits as a number.
    error: matching(typeof raw.error === "number" ? String(raw.error) : raw.error, /^[0-9a-f]{16}$/),
    from: moment(raw.from),
    until: moment(raw.until),
    time: oneOf(raw.time, SPANS),
  };
}

export function isFiltered({ view: _view, ...search }: AllJobsSearch): boolean {
  return Object.values(search).some((value) => value !== undefined);
}

/** The filter in the form of the API, for a query or a bulk action. */
export function toFilter(search: AllJobsSearch): Wanted {
  const wanted: Wanted = {
    q: search.q,
    status: search.status && [...STATUSES[search.status]],
    tenant_id: search.tenant,
    user_id: search.user,
    run_id: search.run,
    workflow: search.workflow ? [search.workflow] : undefined,
    effect: search.effect ? [search.effect] : undefined,
    kind: search.kind ? [search.kind] : undefined,
    worker_id: search.worker,
    fingerprint: search.error,
    created_from: search.from,
    created_to: search.until,
  };
  return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined));
}

/** Start of the last hour, day, week or month, at a whole minute because people read it. */
export function startOf(span: Span, now: Date): string {
  const minute = Math.floor((now.getTime() - SECONDS[span] * 1000) / 60_000);
  return new Date(minute * 60_000).toISOString();
}

/** Number of jobs per status filter. */
export function countsOf(totals: Totals): Record<StatusFilter, number> {
  return { ...countsBy(FILTERS, (status) => totals.by_status[status]?.jobs ?? 0), all: totals.jobs };
}

export function sumOf(totals: Totals, statuses: readonly JobStatus[]): { jobs: number; tokens: number } {
  return statuses.reduce(
    (sum, status) => ({
      jobs: sum.jobs + (totals.by_status[status]?.jobs ?? 0),
      tokens: sum.tokens + (totals.by_status[status]?.tokens ?? 0),
    }),
    { jobs: 0, tokens: 0 },
  );
}

function moment(value: unknown): string | undefined {
  // Without this check a browser would also read "5" as a time.
  const isTime = typeof value === "string" && /^\d{4}-\d{2}-\d{2}/.test(value);
  return isTime ? utcOf(value) : undefined;
}
