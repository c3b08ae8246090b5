// An entry in words. Pure.
import type { Schemas } from "@/api/types";

type AuditEntry = Schemas["AuditEntry"];

/** `amount: 100, reason: Invoice 7`. */
export function detailsOf(entry: AuditEntry): string {
  return Object.entries(entry.details)
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => `${name.replaceAll("_", " ")}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
}
