import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { notifyDone, notifyError } from "@/parts/notify";
import { allJobsTexts } from "@/texts/all-jobs";

export function useStartAction(onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas["StartBulkAction"]) => data(api.POST("/api/admin/bulk-actions", { body })),
    onSuccess: (action) => {
      void notifyDone(allJobsTexts.started(allJobsTexts.kinds[action.action]));
      void client.invalidateQueries({ queryKey: keys.bulkActions });
      onDone();
    },
  });
}

export function useStopAction() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) =>
      data(api.POST("/api/admin/bulk-actions/{bulk_action_id}/stop", { params: { path: { bulk_action_id: id } } })),
    onError: (error) => notifyError(error),
    onSettled: () => client.invalidateQueries({ queryKey: keys.bulkActions }),
  });
}
