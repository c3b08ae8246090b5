import type { Schemas } from "@/api/types";
import { requirementsTexts as texts } from "@/texts/requirements";

/** One requirement of a workflow that an engine does not meet. */
export function lackText(lack: Schemas["Lack"]): string {
  return texts.lack[lack.kind](lack.name);
}
