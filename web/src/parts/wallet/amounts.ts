// Reads amounts of tokens. Pure.
import { formatTokens } from "@/design/Tokens";
import { amountTexts as texts } from "@/texts/wallets";
import type { Movement } from "./owners";

/** `1,000`, `1 000` or `1000` as a number of tokens; null if it is not a whole number above 0. */
export function amountOf(typed: string): number | null {
  const digits = typed.trim().replace(/[,\s]/g, "");
  const amount = /^\d{1,16}$/.test(digits) ? Number(digits) : 0;
  return amount > 0 && Number.isSafeInteger(amount) ? amount : null;
}

export function balanceAfter(balance: number, amount: number | null, movement: Movement): number {
  return movement === "credit" ? balance + (amount ?? 0) : balance - (amount ?? 0);
}

/** Why the typed amount cannot be moved. `balance` is undefined while it is not known; then the server decides. */
export function amountProblem(typed: string, balance: number | undefined, movement: Movement): string | false {
  const amount = amountOf(typed);
  if (amount === null) return typed.trim() !== "" && texts.amountProblem;
  return balance !== undefined && balanceAfter(balance, amount, movement) < 0 && texts.tooMany(formatTokens(balance));
}
