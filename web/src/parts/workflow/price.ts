import { formatTokens } from "@/design/Tokens";
import { catalogEffectsTexts } from "@/texts/catalog-effects";
import type { EffectRecord } from "./queries";

/** What a job of the effect costs. An effect that was never published may have no price yet. */
export function priceOf({ credits_cost, is_published }: Pick<EffectRecord, "credits_cost" | "is_published">): string {
  if (credits_cost > 0) return formatTokens(credits_cost);
  return is_published ? catalogEffectsTexts.free : catalogEffectsTexts.noPrice;
}
