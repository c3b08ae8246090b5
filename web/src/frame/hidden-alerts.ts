// Alerts that the user hid in this tab. An alert that ended and starts again is a new one.
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

/** Replaces the earlier list, so alerts that ended take no space. */
export function writeHidden(alerts: readonly Named[]): ReadonlySet<string> {
  const names = alerts.map(nameOf);
  sessionStorage.setItem(KEY, JSON.stringify(names));
  return new Set(names);
}
