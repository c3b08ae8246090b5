import { useRef } from "react";
import { api, data } from "@/api/client";
import { IdempotencyKey } from "@/api/idempotency";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { notifyDone } from "@/parts/notify";
import { useAction, useSave } from "@/parts/useAction";
import { allJobsTexts } from "@/texts/all-jobs";

export function useStartAction(onDone: () => void) {
  const idempotencyKey = useRef(new IdempotencyKey());
  return useSave({
    mutationFn: (body: Schemas["StartBulkAction"]) => {
      const header = { "idempotency-key": idempotencyKey.current.of(body) };
      return data(api.POST("/api/admin/bulk-actions", { body, params: { header } }));
    },
    changes: [keys.bulkActions],
    onSuccess: (action) => {
      idempotencyKey.current.settle(null);
      return notifyDone(allJobsTexts.started(allJobsTexts.kinds[action.action]));
    },
    onError: (error) => idempotencyKey.current.settle(error),
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
