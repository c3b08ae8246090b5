// Filters of the list of all jobs, in the form of the URL and of the API. Pure: the clock is a parameter.
import type { JobStatus, Schemas } from "@/api/types";
import { utcOf } from "@/parts/local-times";

export const VIEWS = ["jobs", "errors", "actions"] as const;
export type View = (typeof VIEWS)[number];
export const STATUS_FILTERS = ["all", "active", "queued", "running", "completed", "failed", "canceled"] as const;
export type StatusFilter = (typeof STATUS_FILTERS)[number];
export const SPANS = ["hour", "day", "week", "month"] as const;
export type Span = (typeof SPANS)[number];
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

export const STATUSES: Record<Exclude<StatusFilter, "all">, readonly JobStatus[]> = {
  queued: ["pending", "queued"],
  running: ["processing"],
  active: ["pending", "queued", "processing"],
  completed: ["completed"],
  failed: ["failed", "expired"],
  canceled: ["canceled"],
};
const SECONDS: Record<Span, number> = { hour: 3_600, day: 86_400, week: 604_800, month: 2_592_000 };
const MAX_TEXT_LENGTH = 200;
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Reads any URL. Invalid values are left out. */
export function readSearch(raw: Record<string, unknown>): AllJobsSearch {
  // Every key is present, even with undefined, because the router keeps keys that are missing here.
  return {
    view: oneOf(raw.view, ["errors", "actions"]),
    q: text(raw.q),
    status: oneOf(raw.status, ["active", "queued", "running", "completed", "failed", "canceled"]),
    tenant: matching(raw.tenant, ID),
    user: matching(raw.user, ID),
    run: matching(raw.run, ID),
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
  const sum = (statuses: readonly JobStatus[]) => sumOf(totals, statuses).jobs;
  const counts = Object.fromEntries(
    Object.entries(STATUSES).map(([name, statuses]) => [name, sum(statuses)]),
  ) as Record<StatusFilter, number>;
  return { ...counts, all: totals.jobs };
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

function text(value: unknown): string | undefined {
  // The router reads a search for 2026 as a number.
  const given = typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
  return given.trim().slice(0, MAX_TEXT_LENGTH) || undefined;
}

function oneOf<Value extends string>(value: unknown, values: readonly Value[]): Value | undefined {
  return values.find((each) => each === value);
}

function moment(value: unknown): string | undefined {
  // Without this check a browser would also read "5" as a time.
  const isTime = typeof value === "string" && /^\d{4}-\d{2}-\d{2}/.test(value);
  return isTime ? utcOf(value) : undefined;
}

function matching(value: unknown, pattern: RegExp): string | undefined {
  return typeof value === "string" && pattern.test(value) ? value : undefined;
}
