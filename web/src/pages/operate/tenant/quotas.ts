// Compares the form with the quotas in force. Pure.
import type { Schemas } from "@/api/types";
import { formatBytes, parseBytes } from "@/parts/bytes";
import { formatNumber } from "@/texts/plurals";
import { quotaTexts as texts } from "@/texts/tenants";

export type QuotaName = keyof typeof texts.fields;
export type QuotaDraft = Partial<Record<QuotaName, string>>;
export const QUOTAS = Object.keys(texts.fields) as QuotaName[];

export function shownQuota(name: QuotaName, value: number): string {
  return isBytes(name) ? formatBytes(value) : formatNumber(value);
}

/** An empty field means the default. */
export function textsOf({ changed }: Schemas["TenantQuotas"]): Record<QuotaName, string> {
  return Object.fromEntries(
    QUOTAS.map((name) => [name, changed[name] === undefined ? "" : shownQuota(name, changed[name])]),
  ) as Record<QuotaName, string>;
}

/** An empty field restores the default. */
export function changesOf(
  quotas: Schemas["TenantQuotas"],
  draft: QuotaDraft,
): { changes: Schemas["ChangeQuotas"]; problems: QuotaDraft } {
  const changes: Partial<Record<QuotaName, number | null>> = {};
  const problems: QuotaDraft = {};
  const saved = textsOf(quotas);
  for (const [name, typed] of Object.entries(draft) as [QuotaName, string][]) {
    const text = typed.trim();
    // The text is unchanged, so a size that was rounded for people is not a change.
    if (text === saved[name]) continue;
    const value = text === "" ? null : isBytes(name) ? parseBytes(text) : wholeNumber(text);
    if (text !== "" && value === null) problems[name] = isBytes(name) ? texts.bytes : texts.wholeNumber;
    else if (value !== (quotas.changed[name] ?? null)) changes[name] = value;
  }
  return { changes, problems };
}

function isBytes(name: QuotaName): boolean {
  return name.endsWith("_bytes");
}

function wholeNumber(text: string): number | null {
  const digits = text.replace(/[,\s]/g, "");
  return /^\d{1,15}$/.test(digits) ? Number(digits) : null;
}
