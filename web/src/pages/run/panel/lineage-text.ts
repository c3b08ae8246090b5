// Describes the request for a candidate in words. Pure.
import type { Schemas } from "@/api/types";

/** The prompt of a workflow or of an actor. Without one, the values of the step. */
export function promptOf(ancestor: Pick<Schemas["Ancestor"], "lineage" | "payload">): string | null {
  const prompt = ancestor.payload?.prompt ?? ancestor.lineage.prompt;
  if (typeof prompt === "string" && prompt !== "") return prompt;
  const values = { ...record(ancestor.lineage.variables), ...record(ancestor.lineage.values) };
  const shown = Object.entries(values).filter(
    ([, value]) => typeof value === "string" || typeof value === "number" || typeof value === "boolean",
  );
  return shown.length > 0 ? shown.map(([name, value]) => `${name} ${String(value)}`).join(", ") : null;
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}
