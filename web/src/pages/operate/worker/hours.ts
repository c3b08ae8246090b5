// The last 24 hours of a worker, one value per hour. Pure: the clock is a parameter.
export interface Hour {
  at: string;
  busy_share: number;
  minutes: number;
}

export interface Bar {
  at: Date;
  /** 0 to 1; null if the worker was offline. */
  share: number | null;
}

const HOUR_MS = 3_600_000;
export const SHOWN_HOURS = 24;

export function bars(hours: readonly Hour[], now: Date): Bar[] {
  const current = Math.floor(now.getTime() / HOUR_MS) * HOUR_MS;
  const byHour = new Map(hours.map((hour) => [Date.parse(hour.at), hour.busy_share]));
  return Array.from({ length: SHOWN_HOURS }, (_, index) => {
    const at = current - (SHOWN_HOURS - 1 - index) * HOUR_MS;
    return { at: new Date(at), share: byHour.get(at) ?? null };
  });
}

/** Share of the online time with used slots; null if the worker was offline. */
export function busyShare(hours: readonly Hour[]): number | null {
  const minutes = hours.reduce((sum, hour) => sum + hour.minutes, 0);
  return minutes === 0 ? null : hours.reduce((sum, hour) => sum + hour.busy_share * hour.minutes, 0) / minutes;
}
