import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { keys } from "@/api/keys";
import { same } from "@/parts/workflow/exact";
import type { EffectRecord } from "@/parts/workflow/queries";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import { type EffectChange, useChangeEffect } from "./useEffectActions";

const FIELDS = [
  "name",
  "description",
  "category",
  "workflow",
  "credits_cost",
  "provider",
  "stage",
  "overrides",
] as const;
export type EffectDraft = Pick<EffectRecord, (typeof FIELDS)[number]>;

/** Editable fields of an effect. */
export function useEffectDraft(effect: EffectRecord) {
  const client = useQueryClient();
  const [edited, setEdited] = useState<Partial<EffectDraft>>({});
  const draft: EffectDraft = { ...effect, ...edited };
  const changed = FIELDS.filter((name) => !same(effect[name], draft[name]));
  const isDirty = changed.length > 0;
  const save = useChangeEffect(
    effect,
    (saved) => texts.saved(saved.name),
    () => setEdited({}),
  );
  useEffect(() => {
    if (!isDirty) return;
    const confirmLeave = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", confirmLeave);
    return () => window.removeEventListener("beforeunload", confirmLeave);
  }, [isDirty]);
  return {
    effect,
    draft,
    isDirty,
    save,
    set: (values: Partial<EffectDraft>) => setEdited((now) => ({ ...now, ...values })),
    send: () => save.mutate(Object.fromEntries(changed.map((name) => [name, draft[name]])) as EffectChange),
    discard: () => {
      save.reset();
      setEdited({});
    },
    reload: async () => {
      await client.invalidateQueries({ queryKey: keys.effectRecord(effect.slug) });
      save.reset();
    },
  };
}

export type EffectEditing = ReturnType<typeof useEffectDraft>;
