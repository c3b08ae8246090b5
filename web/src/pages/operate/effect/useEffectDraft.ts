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
  const { name, description, category, workflow, credits_cost, provider, stage, overrides } = effect;
  const form = useForm({
    saved: { name, description, category, workflow, credits_cost, provider, stage, overrides },
    save,
    body: (_, changes) => changes as EffectChange,
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

export type EffectEditing = ReturnType<typeof useEffectDraft>;
