import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { api, data } from "@/api/client";
import { IdempotencyKey } from "@/api/idempotency";
import { keys } from "@/api/keys";
import type { Payload } from "@/parts/actors";

/** Submits one task, however often the user presses the button. */
export function useSubmitTask(actor: string, onSubmitted: (jobId: string) => void) {
  const client = useQueryClient();
  const key = useRef(new IdempotencyKey());
  const isBusy = useRef(false);
  const mutation = useMutation({
    mutationFn: (payload: Payload) => {
      const body = { actor, payload };
      return data(
        api.POST("/api/task", {
          body: { ...body, idempotency_key: key.current.of(body), priority: 0, queue_name: "default", max_retries: 3 },
        }),
      );
    },
    onSuccess: (task) => {
      for (const each of [keys.wallet, keys.activeJobs, keys.jobLists])
        void client.invalidateQueries({ queryKey: each });
      onSubmitted(task.job_id);
    },
    onSettled: (_task, error) => {
      key.current.settle(error);
      isBusy.current = false;
    },
  });
  return {
    ...mutation,
    submit: (payload: Payload) => {
      if (isBusy.current) return;
      isBusy.current = true;
      mutation.mutate(payload);
    },
  };
}
