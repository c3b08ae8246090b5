import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Effect } from "@/api/types";
import { type FormValues, payloadOf } from "@/parts/form/values";
import type { FileValue } from "@/parts/UploadField";
import { useSubmission } from "@/parts/useSubmission";

interface GenerateRequest {
  input: FileValue | null;
  values: FormValues;
}

/** Submits one job and opens its page. */
export function useGenerate(effect: Effect) {
  const client = useQueryClient();
  const navigate = useNavigate();
  return useSubmission({
    send: (request: GenerateRequest, key) => {
      const body = {
        effect_id: effect.slug,
        input_file_id: request.input?.id,
        input_payload: payloadOf(effect.properties, request.values),
      };
      return data(api.POST("/api/ai-jobs", { body: { ...body, idempotency_key: key.of(body) } }));
    },
    changes: [keys.wallet, keys.activeJobs, keys.jobLists],
    onSuccess: (job) => {
      client.setQueryData(keys.job(job.id), job);
      return navigate({ to: "/jobs/$id", params: { id: job.id } });
    },
  });
}
