// The alerts that this tab does not show any more. An alert that ended and starts again is a new one.
interface Named {
  code: string;
  subject: string;
  severity: string;
  process?: string;
  since?: string | null;
}

const KEY = "hidden-alerts";

export function nameOf(alert: Named): string {
  return [alert.process ?? "", alert.code, alert.subject, alert.severity, alert.since ?? ""].join("|");
}

export function newAlerts<Alert extends Named>(alerts: readonly Alert[], hidden: ReadonlySet<string>): Alert[] {
  return alerts.filter((alert) => !hidden.has(nameOf(alert)));
}

export function readHidden(): ReadonlySet<string> {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
    return new Set(Array.isArray(kept) ? kept.filter((name) => typeof name === "string") : []);
  } catch {
    return new Set();
  }
}

/** Replaces what was hidden before: alerts that ended need no place. */
export function writeHidden(alerts: readonly Named[]): ReadonlySet<string> {
  const names = alerts.map(nameOf);
  sessionStorage.setItem(KEY, JSON.stringify(names));
  return new Set(names);
}
