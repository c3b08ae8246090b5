// Turns the rows of a report into lines of a chart and rows of a table. Pure: the time is a parameter.
import type { Schemas } from "@/api/types";
import { spendingTexts as texts } from "@/texts/budgets";
import type { Range } from "./ranges";

type Row = Schemas["SpendingRow"];
type By = Schemas["SpendingBy"];

// More lines than these cannot be distinguished.
export const MAX_LINES = 3;

export interface Subject {
  key: string;
  name: string;
  jobs: number;
  tokens: number;
}

/** The first day of the report, at midnight of the reader's zone: today is the last of `days`. */
export function sinceOf(days: Range, now: Date): Date {
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() - days + 1);
}

/** A year has too many days for a chart. */
export function periodOf(days: Range): "day" | "week" {
  return days > 90 ? "week" : "day";
}

/** The sum of each subject, the largest first. */
export function subjectsOf(rows: readonly Row[], by: By): Subject[] {
  const found = new Map<string, Subject>();
  for (const row of rows) {
    const key = row.subject ?? "";
    const before = found.get(key);
    found.set(key, {
      key,
      name: row.name ?? nameless(row.subject, by),
      jobs: (before?.jobs ?? 0) + row.jobs,
      tokens: (before?.tokens ?? 0) + row.tokens,
    });
  }
  return [...found.values()].sort((one, other) => other.tokens - one.tokens || other.jobs - one.jobs);
}

function nameless(subject: string | null | undefined, by: By): string {
  if (subject == null) return texts.nothing[by];
  return by === "provider" ? subject : texts.gone(subject.slice(-4));
}

/** The days, or the first days of weeks, from the first to the last, as the API names them. */
export function daysOf(since: Date, until: Date, period: "day" | "week"): string[] {
  const start = new Date(since.getFullYear(), since.getMonth(), since.getDate());
  // A week begins on Monday.
  if (period === "week") start.setDate(start.getDate() - ((start.getDay() + 6) % 7));
  const days: string[] = [];
  for (const day = start; day <= until; day.setDate(day.getDate() + (period === "week" ? 7 : 1))) {
    days.push(
      [day.getFullYear(), day.getMonth() + 1, day.getDate()].map((part) => String(part).padStart(2, "0")).join("-"),
    );
  }
  return days;
}

/** Midnight of a day in the reader's zone, in seconds since 1970. */
export function secondsOf(day: string): number {
  return new Date(`${day}T00:00:00`).getTime() / 1000;
}

/** A line for each of the largest subjects, and one for all others. */
export function linesOf(rows: readonly Row[], subjects: readonly Subject[], days: readonly string[]) {
  const shown = subjects.slice(0, MAX_LINES);
  const isShown = new Set(shown.map(({ key }) => key));
  const sumOf = (isOf: (key: string) => boolean) => {
    const sums = new Map(days.map((day) => [day, 0]));
    for (const row of rows)
      if (isOf(row.subject ?? "")) sums.set(row.first_day, (sums.get(row.first_day) ?? 0) + row.tokens);
    return days.map((day) => sums.get(day) ?? 0);
  };
  const lines = shown.map(({ key, name }) => ({ name, isRest: false, values: sumOf((each) => each === key) }));
  const others = { name: texts.others, isRest: true, values: sumOf((each) => !isShown.has(each)) };
  return subjects.length > MAX_LINES ? [...lines, others] : lines;
}
