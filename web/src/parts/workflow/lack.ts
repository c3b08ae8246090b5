import type { Schemas } from "@/api/types";
import { requirementsTexts as texts } from "@/texts/requirements";

/** One thing that a workflow requires and an engine does not have. */
export function lackText(lack: Schemas["Lack"]): string {
  return texts.lack[lack.kind](lack.name);
}
