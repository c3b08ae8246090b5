// The price of an effect, as lists and cards show it. Pure.
import type { Effect } from "@/api/types";
import { formatTokens } from "@/design/Tokens";
import { effectTexts } from "@/texts/effects";

/** "Free", "5 tokens", or "From 5 tokens" if a formula calculates the price of each job. */
export function priceText({ credits_cost, price_formula }: Pick<Effect, "credits_cost" | "price_formula">): string {
  if (price_formula) return effectTexts.from(formatTokens(credits_cost));
  return credits_cost === 0 ? effectTexts.free : formatTokens(credits_cost);
}
