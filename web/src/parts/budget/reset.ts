// When a budget resets, in its own time zone. Pure: the clock is a parameter.
import { relativeTime } from "@/design/times";
import { budgetsTexts } from "@/texts/budgets";

const FORM = { weekday: "short", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };

export function resetText({ resets_at, time_zone }: { resets_at: string; time_zone: string }, now: Date): string {
  const at = new Date(resets_at);
  return budgetsTexts.resetsIn(relativeTime(at, now), inZone(at, time_zone), time_zone);
}

/** A browser may not know a time zone that the server knows. */
function inZone(at: Date, timeZone: string): string {
  try {
    return at.toLocaleString(undefined, { ...FORM, timeZone } as Intl.DateTimeFormatOptions);
  } catch {
    return `${at.toLocaleString(undefined, { ...FORM, timeZone: "UTC" } as Intl.DateTimeFormatOptions)} UTC`;
  }
}
