import { useQueryClient } from "@tanstack/react-query";
import { keys } from "@/api/keys";
import { useForm } from "@/parts/form/useForm";
import { useLeaveQuestion } from "@/parts/useLeaveQuestion";
import type { EffectRecord } from "@/parts/workflow/queries";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import { type EffectChange, useChangeEffect } from "./useEffectActions";

/** Editable fields of an effect. */
export function useEffectDraft(effect: EffectRecord) {
  const client = useQueryClient();
  const save = useChangeEffect(effect, (saved) => texts.saved(saved.name));
  const { name, description, category, workflow, credits_cost, price_formula, provider, stage, overrides } = effect;
  const form = useForm({
    saved: { name, description, category, workflow, credits_cost, price_formula, provider, stage, overrides },
    save,
    body: (values, changes) => pricedChange(values, changes as EffectChange),
  });
  useLeaveQuestion(form.isChanged);
  return {
    ...form,
    error: save.error,
    reload: async () => {
      await client.invalidateQueries({ queryKey: keys.effectRecord(effect.slug) });
      save.reset();
    },
  };
}

/** An effect has a price or a formula. The server calculates the lowest price of a formula. */
function pricedChange(
  { price_formula, credits_cost }: Pick<EffectRecord, "price_formula" | "credits_cost">,
  { credits_cost: changed, ...others }: EffectChange,
): EffectChange {
  const isNeeded = changed != null || others.price_formula != null;
  return isNeeded && !price_formula?.trim() ? { ...others, credits_cost } : others;
}

export type EffectEditing = ReturnType<typeof useEffectDraft>;
