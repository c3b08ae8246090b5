import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Effect } from "@/api/types";
import { type FormValues, payloadOf } from "@/parts/form/values";
import { useSubmission } from "@/parts/useSubmission";

interface BatchRequest {
  fileIds: readonly string[];
  values: FormValues;
}

/** Submits one job for each file as a batch, and opens its page. */
export function useGenerateBatch(effect: Effect) {
  const client = useQueryClient();
  const navigate = useNavigate();
  return useSubmission({
    send: (request: BatchRequest, key) => {
      const body = {
        effect_id: effect.slug,
        input_payload: payloadOf(effect.properties, request.values),
        items: request.fileIds.map((id) => ({ input_file_id: id })),
      };
      return data(api.POST("/api/batches", { body: { ...body, idempotency_key: key.of(body) } }));
    },
    changes: [keys.wallet, keys.activeJobs, keys.jobLists, keys.batchLists],
    onSuccess: (batch) => {
      client.setQueryData(keys.batch(batch.id), batch);
      return navigate({ to: "/batches/$id", params: { id: batch.id } });
    },
  });
}
