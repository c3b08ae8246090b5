import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { ApiError } from "@/api/problems";
import type { Effect } from "@/api/types";
import { type FormValues, payloadOf } from "@/parts/form/values";
import type { FileValue } from "@/parts/UploadField";
import { useSubmission } from "@/parts/useSubmission";

interface GenerateRequest {
  input: FileValue | null;
  values: FormValues;
}

const MAX_ATTEMPTS = 15;

/** A price may depend on a file that was uploaded a moment ago. The server says when it should be measured. */
async function onceMeasured<Result>(send: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await send();
    } catch (error) {
      const isEarly = error instanceof ApiError && error.code === "file_not_measured";
      if (!isEarly || attempt === MAX_ATTEMPTS) throw error;
      await new Promise((wake) => setTimeout(wake, (error.retryAfter ?? 2) * 1000));
    }
  }
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
      return onceMeasured(() => data(api.POST("/api/ai-jobs", { body: { ...body, idempotency_key: key.of(body) } })));
    },
    changes: [keys.wallet, keys.activeJobs, keys.jobLists],
    onSuccess: (job) => {
      client.setQueryData(keys.job(job.id), job);
      return navigate({ to: "/jobs/$id", params: { id: job.id } });
    },
  });
}
