// Computes the single figures of the overview from the points of the charts. Pure.
import type { Schemas } from "@/api/types";

export type Point = Schemas["StatisticsPoint"];

const LATE_MS = 75_000;

export const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** The last sampled value. */
export function latest(points: readonly Point[], read: (point: Point) => number | null | undefined): number | null {
  return points.map(read).findLast((value) => value !== null && value !== undefined) ?? null;
}

export function finished(point: Point): number {
  return point.completed + point.failed + point.expired;
}

/** Finished jobs per minute over the whole range. The last step is incomplete, so only its elapsed part counts. */
export function perMinute(points: readonly Point[], stepSeconds: number, now: Date): number {
  const [first] = points;
  if (first === undefined) return 0;
  const seconds = Math.max(stepSeconds, (now.getTime() - new Date(first.at).getTime()) / 1000);
  return (sum(points, finished) / seconds) * 60;
}

/** null if no job finished. */
export function failedShare(points: readonly Point[]): number | null {
  const all = sum(points, finished);
  return all === 0 ? null : sum(points, (point) => point.failed + point.expired) / all;
}

export function idleShare(points: readonly Point[]): number | null {
  const slots = sum(points, (point) => point.slots ?? 0);
  return slots === 0 ? null : 1 - sum(points, (point) => point.busy_slots ?? 0) / slots;
}

/** The highest p95, because an operator looks for slow periods. */
export function worst(points: readonly Point[], read: (point: Point) => number | null | undefined): number | null {
  const values = points.map(read).filter((value) => value !== null && value !== undefined);
  return values.length === 0 ? null : Math.max(...values);
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}

/** Whether the control planes missed several checks. Then the alerts may be outdated. */
export function isLate({ at, checked_at }: Pick<Schemas["Alerts"], "at" | "checked_at">): boolean {
  return checked_at != null && new Date(at).getTime() - new Date(checked_at).getTime() > LATE_MS;
}

function sum(points: readonly Point[], read: (point: Point) => number): number {
  return points.reduce((total, point) => total + read(point), 0);
}
