import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { useSubmission } from "@/parts/useSubmission";

export type BatchBody = Partial<Schemas["SubmitBatch"]> & Pick<Schemas["SubmitBatch"], "effect_id">;

/** Submits a batch, and opens its page. */
export function useGenerateBatch() {
  const client = useQueryClient();
  const navigate = useNavigate();
  return useSubmission({
    send: (body: BatchBody, key) =>
      data(api.POST("/api/batches", { body: { ...body, idempotency_key: key.of(body) } as Schemas["SubmitBatch"] })),
    changes: [keys.wallet, keys.activeJobs, keys.jobLists, keys.batchLists],
    onSuccess: (batch) => {
      client.setQueryData(keys.batch(batch.id), batch);
      return navigate({ to: "/batches/$id", params: { id: batch.id } });
    },
  });
}
