import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import type { WorkflowChange } from "@/parts/fleet/fleet-changes";
import { notifyDone } from "@/parts/notify";
import { useSave } from "@/parts/useAction";
import { fleetTexts } from "@/texts/fleets";

/** The dialogs that call these actions show refusals. */
function useFleetAction<Body>(run: (body: Body) => Promise<unknown>, done: string, onDone: () => void) {
  return useSave({ mutationFn: run, changes: [keys.allFleets], onSuccess: () => notifyDone(done), onDone });
}

export function useUpdateFleet(id: number, onDone: () => void) {
  return useFleetAction(
    (body: Schemas["UpdateFleetRequest"]) =>
      data(api.PATCH("/api/admin/fleets/{fleet_id}", { params: { path: { fleet_id: id } }, body })),
    fleetTexts.changed,
    onDone,
  );
}

/** Sends only changed workflows: another operator may have changed the list since the dialog opened. */
export function useChangeWorkflows(id: number, onDone: () => void) {
  return useFleetAction(
    (body: WorkflowChange) =>
      data(api.PATCH("/api/admin/fleets/{fleet_id}/workflows", { params: { path: { fleet_id: id } }, body })),
    fleetTexts.workflowsSaved,
    onDone,
  );
}

export function useSetScaling(id: number, onDone: () => void) {
  return useFleetAction(
    (body: Schemas["ScalingRequest"]) =>
      data(api.PUT("/api/admin/fleets/{fleet_id}/scaling", { params: { path: { fleet_id: id } }, body })),
    fleetTexts.scaling.saved,
    onDone,
  );
}

export function useStopScaling(id: number, onDone: () => void) {
  return useFleetAction(
    () => api.DELETE("/api/admin/fleets/{fleet_id}/scaling", { params: { path: { fleet_id: id } } }),
    fleetTexts.scaling.stopped,
    onDone,
  );
}

export function useDeleteFleet(fleet: Schemas["Fleet"], onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    // A pending request for the fleet would fail after the deletion.
    onMutate: () => client.cancelQueries({ queryKey: keys.allFleets }),
    mutationFn: () => api.DELETE("/api/admin/fleets/{fleet_id}", { params: { path: { fleet_id: fleet.id } } }),
    onSuccess: () => {
      // The page must change first. Otherwise it would refetch the deleted fleet.
      onDone();
      void notifyDone(fleetTexts.deleted(fleet.name));
      void client.invalidateQueries({ queryKey: keys.fleets });
      void client.invalidateQueries({ queryKey: keys.fleetChoices });
    },
  });
}
