// Formats times for people. Pure: the clock is a parameter.
import { commonTexts } from "@/texts/common";

const UNITS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_557_600],
  ["month", 2_629_800],
  ["week", 604_800],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];
const DAY = 86_400;
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const short = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const minute = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});

export function relativeTime(at: Date, now: Date): string {
  const seconds = Math.round((at.getTime() - now.getTime()) / 1000);
  if (Math.abs(seconds) < 5) return commonTexts.justNow;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? (["second", 1] as const);
  const count = Math.trunc(seconds / size);
  // Short forms for hours and less, because people read them often and in narrow places: 14 sec ago.
  return size >= DAY ? relative.format(count, unit) : short.format(count, unit).replace(".", "");
}

export function absoluteTime(at: Date): string {
  return absolute.format(at);
}

export function absoluteMinute(at: Date): string {
  return minute.format(at);
}

/** Formats a duration: 0 s, < 0.1 s, 0.3 s, 13 s, 1 m 12 s, 2 h 5 m. */
export function duration(seconds: number): string {
  if (seconds === 0) return "0 s";
  if (seconds < 0.05) return "< 0.1 s";
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} m`;
}

/** Milliseconds until the text of a relative time may change. */
export function untilNextChange(at: Date, now: Date): number {
  const seconds = Math.abs(at.getTime() - now.getTime()) / 1000;
  return seconds < 60 ? 5_000 : seconds < 3600 ? 30_000 : 600_000;
}
