import { priceText } from "@/parts/price";
import { catalogEffectsTexts } from "@/texts/catalog-effects";
import type { EffectRecord } from "./queries";

/** Cost of a job of the effect. An effect that was never published may have no price yet. */
export function priceOf(effect: Pick<EffectRecord, "credits_cost" | "price_formula" | "is_published">): string {
  const isOpen = effect.credits_cost === 0 && !effect.price_formula && !effect.is_published;
  return isOpen ? catalogEffectsTexts.noPrice : priceText(effect);
}
