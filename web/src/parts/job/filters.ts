// Filters of the user's list of jobs, in the form of the URL and of the API. Pure: the clock is a parameter.
import type { JobStatus } from "@/api/types";

export const STATUS_FILTERS = ["all", "active", "completed", "failed", "canceled"] as const;
export type StatusFilter = (typeof STATUS_FILTERS)[number];
export const TIME_FILTERS = ["any", "hour", "day", "week", "month"] as const;
export type TimeFilter = (typeof TIME_FILTERS)[number];

/** A missing value filters nothing and keeps the URL short. */
export interface JobsSearch {
  q?: string;
  status?: Exclude<StatusFilter, "all">;
  effect?: string;
  kind?: string;
  time?: Exclude<TimeFilter, "any">;
  run?: string;
}

export const STATUSES: Record<Exclude<StatusFilter, "all">, readonly JobStatus[]> = {
  active: ["pending", "queued", "processing"],
  completed: ["completed"],
  failed: ["failed", "expired"],
  canceled: ["canceled"],
};
const SECONDS: Record<Exclude<TimeFilter, "any">, number> = {
  hour: 3_600,
  day: 86_400,
  week: 604_800,
  month: 2_592_000,
};
const MAX_TEXT_LENGTH = 200;

/** Reads any URL. Invalid values are left out. */
export function readSearch(raw: Record<string, unknown>): JobsSearch {
  // Every key is present, even with undefined, because the router keeps keys that are missing here.
  return {
    q: text(raw.q),
    status: oneOf(raw.status, ["active", "completed", "failed", "canceled"]),
    effect: matching(raw.effect, /^[a-z0-9][a-z0-9_-]{0,62}$/),
    kind: matching(raw.kind, /^[a-z][a-z0-9_]{0,31}$/),
    time: oneOf(raw.time, ["hour", "day", "week", "month"]),
    run: matching(raw.run, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i),
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
    created_from: search.time ? new Date(now.getTime() - SECONDS[search.time] * 1000).toISOString() : undefined,
  };
}

/** Number of jobs per status filter. */
export function countsOf(byStatus: Partial<Record<JobStatus, number>>): Record<StatusFilter, number> {
  const sum = (statuses: readonly JobStatus[]) =>
    statuses.reduce((total, status) => total + (byStatus[status] ?? 0), 0);
  const counts = Object.fromEntries(
    Object.entries(STATUSES).map(([name, statuses]) => [name, sum(statuses)]),
  ) as Record<StatusFilter, number>;
  return { ...counts, all: Object.values(counts).reduce((total, count) => total + count, 0) };
}

function text(value: unknown): string | undefined {
  // The router reads a search for 2026 as a number.
  const given = typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
  return given.trim().slice(0, MAX_TEXT_LENGTH) || undefined;
}

function oneOf<Value extends string>(value: unknown, values: readonly Value[]): Value | undefined {
  return values.find((each) => each === value);
}

function matching(value: unknown, pattern: RegExp): string | undefined {
  return typeof value === "string" && pattern.test(value) ? value : undefined;
}
