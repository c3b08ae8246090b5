// Compares the form with the weight and limits in force. Pure.
import { ChangeTenantWeight } from "@/api/fields";
import type { Schemas } from "@/api/types";
import { weightTexts as texts } from "@/texts/tenants";

export type WeightName = "weight" | "max_running" | "max_running_per_user";
export type WeightDraft = Partial<Record<WeightName, string>>;

export function textsOf({
  weight,
  max_running,
  max_running_per_user,
}: Schemas["TenantWeight"]): Record<WeightName, string> {
  const text = (value: number | null | undefined) => (value == null ? "" : String(value));
  return {
    weight: text(weight),
    max_running: text(max_running),
    max_running_per_user: text(max_running_per_user),
  };
}

export function changesOf(
  saved: Schemas["TenantWeight"],
  draft: WeightDraft,
): { changes: Schemas["ChangeTenantWeight"]; problems: WeightDraft } {
  const { minimum, maximum } = ChangeTenantWeight.weight;
  const changes: Record<string, number | null> = {};
  const problems: WeightDraft = {};
  for (const [name, typed] of Object.entries(draft) as [WeightName, string][]) {
    const text = typed.trim();
    const value = text === "" ? null : Number(text.replace(",", "."));
    const isWrong =
      value !== null &&
      (name === "weight" ? !(value >= minimum && value <= maximum) : !(Number.isSafeInteger(value) && value >= 0));
    if (isWrong) problems[name] = name === "weight" ? texts.positive : texts.wholeNumber;
    else if (value !== (saved[name] ?? null)) changes[name] = value;
  }
  return { changes, problems };
}
