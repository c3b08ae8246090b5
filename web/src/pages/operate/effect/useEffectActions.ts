import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { notifyDone, notifyError } from "@/parts/notify";
import { useSave } from "@/parts/useAction";
import type { EffectRecord } from "@/parts/workflow/queries";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";

export type EffectChange = Partial<Omit<Schemas["UpdateEffect"], "version">>;

/** Changes the version of an effect that the page has read. The server refuses if another operator changed it since. */
export function useChangeEffect(
  effect: EffectRecord,
  messageOf: (changed: EffectRecord) => string,
  onDone: () => void = () => undefined,
) {
  const client = useQueryClient();
  return useSave({
    mutationFn: (change: EffectChange) =>
      data(
        api.PATCH("/api/admin/effects/{effect}", {
          params: { path: { effect: effect.slug } },
          body: { ...change, version: effect.version },
        }),
      ),
    changes: [keys.effectRecords(undefined).slice(0, 3), keys.effects(), keys.effect(effect.slug), keys.assets],
    onSuccess: (changed) => {
      client.setQueryData(keys.effectRecord(effect.slug), changed);
      onDone();
      void notifyDone(messageOf(changed));
      for (const warning of changed.warnings ?? []) void notifyError(new Error(warning));
    },
  });
}

export function useDeleteEffect(effect: EffectRecord, onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => api.DELETE("/api/admin/effects/{effect}", { params: { path: { effect: effect.slug } } }),
    onSuccess: () => {
      onDone();
      client.removeQueries({ queryKey: keys.effectRecord(effect.slug) });
      for (const queryKey of [keys.allEffectRecords, keys.effects()]) void client.invalidateQueries({ queryKey });
      void notifyDone(texts.deleted(effect.name));
    },
  });
}

/** Makes the preview from a job or from assets; null removes it. */
export function useEffectPreview(slug: string) {
  return useSave({
    mutationFn: async (source: Schemas["SetEffectPreview"] | null) => {
      const params = { path: { effect: slug } };
      if (source === null) await api.DELETE("/api/admin/effects/{effect}/preview", { params });
      else await api.PUT("/api/admin/effects/{effect}/preview", { params, body: source });
      return source !== null;
    },
    changes: [keys.effects(), keys.effect(slug), keys.allEffectRecords],
    onDone: (isSet) => void notifyDone(isSet ? texts.previewSet : texts.removed),
  });
}
