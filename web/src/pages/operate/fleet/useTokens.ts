import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { notifyDone } from "@/parts/notify";
import { useAction, useSave } from "@/parts/useAction";
import { fleetTexts } from "@/texts/fleets";

/** Only the responses of create and rotate contain the token. */
export function useCreateToken(fleetId: number) {
  return useSave({
    mutationFn: (name: string) =>
      data(
        api.POST("/api/admin/fleets/{fleet_id}/tokens", {
          params: { path: { fleet_id: fleetId } },
          body: { name: name || null },
        }),
      ),
    changes: [keys.fleetTokens(fleetId)],
  });
}

export function useRotateToken(fleetId: number) {
  return useAction({
    mutationFn: (id: number) =>
      data(
        api.POST("/api/admin/fleets/{fleet_id}/tokens/{fleet_token_id}/rotate", {
          params: { path: { fleet_id: fleetId, fleet_token_id: id } },
        }),
      ),
    changes: [keys.fleetTokens(fleetId)],
  });
}

export function useRevokeToken(fleetId: number, onDone: () => void) {
  return useAction({
    mutationFn: (id: number) =>
      data(
        api.POST("/api/admin/fleets/{fleet_id}/tokens/{fleet_token_id}/revoke", {
          params: { path: { fleet_id: fleetId, fleet_token_id: id } },
        }),
      ),
    onSuccess: () => notifyDone(fleetTexts.tokens.revokedNow),
    changes: [keys.fleetTokens(fleetId)],
    onEnd: onDone,
  });
}
