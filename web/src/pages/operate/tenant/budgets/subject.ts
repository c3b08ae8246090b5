// Says in words which jobs a budget counts. Pure.
import { budgetsTexts as texts } from "@/texts/budgets";
import type { Budget } from "./queries";

type Subject = Pick<Budget, "user_id" | "user" | "key_id" | "key" | "provider" | "period">;

/** "Jobs of ann@example.com, on replicate, per week". */
export function subjectOf({ user_id, user, key_id, key, provider, period }: Subject): string {
  const parts = [
    user_id && (user ? texts.ofUser(user) : texts.ofDeleted),
    key_id && (key ? texts.ofKey(key) : texts.ofDeletedKey),
  ].filter(Boolean);
  return [
    parts.length > 0 ? parts.join(", ") : texts.ofTenant,
    ...(provider ? [texts.onProvider(provider)] : []),
    texts.every[period],
  ].join(", ");
}

/** `50,000` or `0` as a limit; null if it is not a whole number. */
export function limitOf(typed: string): number | null {
  const digits = typed.trim().replace(/[,\s]/g, "");
  const limit = /^\d{1,16}$/.test(digits) ? Number(digits) : null;
  return limit !== null && Number.isSafeInteger(limit) ? limit : null;
}
