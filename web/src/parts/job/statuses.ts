// Filters by status and time that the lists of jobs share. Pure.
import type { JobStatus } from "@/api/types";

export const SPANS = ["hour", "day", "week", "month"] as const;
export type Span = (typeof SPANS)[number];
export const SECONDS: Record<Span, number> = { hour: 3_600, day: 86_400, week: 604_800, month: 2_592_000 };

/** The statuses of the API, by the name of their filter. */
export const STATUSES = {
  queued: ["pending", "queued"],
  running: ["processing"],
  active: ["pending", "queued", "processing"],
  completed: ["completed"],
  failed: ["failed", "expired"],
  canceled: ["canceled"],
} as const satisfies Record<string, readonly JobStatus[]>;
type StatusName = keyof typeof STATUSES;

/** Number of jobs for each of these filters. */
export function countsBy<Name extends StatusName>(
  names: readonly Name[],
  jobsOf: (status: JobStatus) => number,
): Record<Name, number> {
  const sum = (name: Name) => STATUSES[name].reduce((total, status) => total + jobsOf(status), 0);
  return Object.fromEntries(names.map((name) => [name, sum(name)])) as Record<Name, number>;
}
