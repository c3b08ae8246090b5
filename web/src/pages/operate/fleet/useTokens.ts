import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { notifyDone, notifyError } from "@/parts/notify";
import { fleetTexts } from "@/texts/fleets";

/** Only the responses of create and rotate contain the token. */
export function useCreateToken(fleetId: number) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (name: string) =>
      data(
        api.POST("/api/admin/fleets/{fleet_id}/tokens", {
          params: { path: { fleet_id: fleetId } },
          body: { name: name || null },
        }),
      ),
    onSettled: () => client.invalidateQueries({ queryKey: keys.fleetTokens(fleetId) }),
  });
}

export function useRotateToken(fleetId: number) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: number) =>
      data(
        api.POST("/api/admin/fleets/{fleet_id}/tokens/{fleet_token_id}/rotate", {
          params: { path: { fleet_id: fleetId, fleet_token_id: id } },
        }),
      ),
    onError: (error) => notifyError(error),
    onSettled: () => client.invalidateQueries({ queryKey: keys.fleetTokens(fleetId) }),
  });
}

export function useRevokeToken(fleetId: number, onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: number) =>
      data(
        api.POST("/api/admin/fleets/{fleet_id}/tokens/{fleet_token_id}/revoke", {
          params: { path: { fleet_id: fleetId, fleet_token_id: id } },
        }),
      ),
    onSuccess: () => notifyDone(fleetTexts.tokens.revokedNow),
    onError: (error) => notifyError(error),
    onSettled: async () => {
      await client.invalidateQueries({ queryKey: keys.fleetTokens(fleetId) });
      onDone();
    },
  });
}
