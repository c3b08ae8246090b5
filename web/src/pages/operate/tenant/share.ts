// Compares the form with the share in force. Pure.
import { ChangeTenantWeight } from "@/api/fields";
import type { Schemas } from "@/api/types";
import { shareTexts as texts } from "@/texts/tenants";

export type ShareName = "weight" | "max_running" | "max_running_per_user";
export type ShareDraft = Partial<Record<ShareName, string>>;

export function textsOf({
  weight,
  max_running,
  max_running_per_user,
}: Schemas["TenantWeight"]): Record<ShareName, string> {
  const text = (value: number | null | undefined) => (value == null ? "" : String(value));
  return {
    weight: text(weight),
    max_running: text(max_running),
    max_running_per_user: text(max_running_per_user),
  };
}

export function changesOf(
  share: Schemas["TenantWeight"],
  draft: ShareDraft,
): { changes: Schemas["ChangeTenantWeight"]; problems: ShareDraft } {
  const { minimum, maximum } = ChangeTenantWeight.weight;
  const changes: Record<string, number | null> = {};
  const problems: ShareDraft = {};
  for (const [name, typed] of Object.entries(draft) as [ShareName, string][]) {
    const text = typed.trim();
    const value = text === "" ? null : Number(text.replace(",", "."));
    const isWrong =
      value !== null &&
      (name === "weight" ? !(value >= minimum && value <= maximum) : !(Number.isSafeInteger(value) && value >= 0));
    if (isWrong) problems[name] = name === "weight" ? texts.positive : texts.wholeNumber;
    else if (value !== (share[name] ?? null)) changes[name] = value;
  }
  return { changes, problems };
}
