import { formatTokens } from "@/design/Tokens";
import { catalogEffectsTexts } from "@/texts/catalog-effects";
import type { EffectRecord } from "./queries";

/** Cost of a job of the effect. An effect that was never published may have no price yet. */
export function priceOf({ credits_cost, is_published }: Pick<EffectRecord, "credits_cost" | "is_published">): string {
  if (credits_cost > 0) return formatTokens(credits_cost);
  return is_published ? catalogEffectsTexts.free : catalogEffectsTexts.noPrice;
}
