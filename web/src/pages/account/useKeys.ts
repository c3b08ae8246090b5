import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { notify, notifyError } from "@/parts/notify";
import { keyTexts } from "@/texts/account";

export function useCreateKey() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas["CreateKeyRequest"]) => data(api.POST("/api/keys", { body })),
    onSuccess: () => client.invalidateQueries({ queryKey: keys.apiKeys }),
    // The response contains the key itself, so the cache drops it when the dialog closes.
    gcTime: 0,
  });
}

export function useRevokeKey(onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => api.DELETE("/api/keys/{key_id}", { params: { path: { key_id: id } } }),
    onSuccess: () => notify(keyTexts.wasRevoked),
    onError: (error) => notifyError(error),
    onSettled: async () => {
      await client.invalidateQueries({ queryKey: keys.apiKeys });
      onDone();
    },
  });
}
