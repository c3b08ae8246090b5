import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { notifyDone } from "@/parts/notify";
import { useAction, useSave } from "@/parts/useAction";
import { allJobsTexts } from "@/texts/all-jobs";

export function useStartAction(onDone: () => void) {
  return useSave({
    mutationFn: (body: Schemas["StartBulkAction"]) => data(api.POST("/api/admin/bulk-actions", { body })),
    changes: [keys.bulkActions],
    onSuccess: (action) => notifyDone(allJobsTexts.started(allJobsTexts.kinds[action.action])),
    onDone,
  });
}

export function useStopAction() {
  return useAction({
    mutationFn: (id: string) =>
      data(api.POST("/api/admin/bulk-actions/{bulk_action_id}/stop", { params: { path: { bulk_action_id: id } } })),
    changes: [keys.bulkActions],
  });
}
