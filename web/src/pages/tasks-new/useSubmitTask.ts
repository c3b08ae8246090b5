import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Payload } from "@/parts/actors";
import { useSubmission } from "@/parts/useSubmission";

/** Submits one task. */
export function useSubmitTask(actor: string, onSubmitted: (jobId: string) => void) {
  return useSubmission({
    send: (payload: Payload, key) => {
      const body = { actor, payload };
      return data(api.POST("/api/task", { body: { ...body, idempotency_key: key.of(body) } }));
    },
    changes: [keys.wallet, keys.activeJobs, keys.jobLists],
    onSuccess: (task) => onSubmitted(task.job_id),
  });
}
