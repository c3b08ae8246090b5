// An entry in words. Pure.
import type { Schemas } from "@/api/types";
import { auditTexts as texts } from "@/texts/audit";

type AuditEntry = Schemas["AuditEntry"];

export function actorName(entry: AuditEntry): string {
  if (entry.actor_email) return entry.actor_email;
  if (entry.actor === "operator") return texts.commandLine;
  return entry.actor === "anonymous" ? texts.anonymous : entry.actor;
}

/** `amount: 100, reason: Invoice 7`. */
export function detailsOf(entry: AuditEntry): string {
  return Object.entries(entry.details)
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => `${name.replaceAll("_", " ")}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
}
