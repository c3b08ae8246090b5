// Compares the form with the share in force. Pure.
import type { Schemas } from "@/api/types";
import { shareTexts as texts } from "@/texts/tenants";

export type ShareDraft = Partial<Record<"weight" | "max_running" | "max_running_per_user", string>>;

const MAX_WEIGHT = 1000;
const MIN_WEIGHT = 0.01;

export function changesOf(
  share: Schemas["TenantWeight"],
  draft: ShareDraft,
): { changes: Schemas["ChangeTenantWeight"]; problems: ShareDraft } {
  const changes: Record<string, number | null> = {};
  const problems: ShareDraft = {};
  for (const [name, typed] of Object.entries(draft) as [keyof ShareDraft, string][]) {
    const text = typed.trim();
    const value = text === "" ? null : Number(text.replace(",", "."));
    const isWrong =
      value !== null &&
      (name === "weight"
        ? !(value >= MIN_WEIGHT && value <= MAX_WEIGHT)
        : !(Number.isSafeInteger(value) && value >= 0));
    if (isWrong) problems[name] = name === "weight" ? texts.positive : texts.wholeNumber;
    else if (value !== (share[name] ?? null)) changes[name] = value;
  }
  return { changes, problems };
}
