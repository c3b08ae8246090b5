import { useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { useAction } from "@/parts/useAction";

const CHANGES = [keys.wallet, keys.activeJobs, keys.jobLists, keys.batchLists];

/** Both requests may be repeated: what has changed before does not change again. */
export function useBatchActions(id: string) {
  const client = useQueryClient();
  const show = (batch: Schemas["Batch"]) => {
    client.setQueryData(keys.batch(id), batch);
    // A batch may have a thousand rows, and each of them has changed.
    void client.invalidateQueries({ queryKey: keys.library({ batch: id }) });
  };
  const path = { params: { path: { batch_id: id } } };
  const cancel = useAction({
    mutationFn: () => data(api.POST("/api/batches/{batch_id}/cancel", path)),
    changes: CHANGES,
    onSuccess: show,
  });
  const retry = useAction({
    mutationFn: () => data(api.POST("/api/batches/{batch_id}/retry", path)),
    changes: CHANGES,
    onSuccess: show,
  });
  return { cancel, retry };
}
