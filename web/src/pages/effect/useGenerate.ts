import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useRef } from "react";
import { api, data } from "@/api/client";
import { IdempotencyKey } from "@/api/idempotency";
import { keys } from "@/api/keys";
import type { Effect } from "@/api/types";
import { type FormValues, payloadOf } from "@/parts/form/values";
import type { FileValue } from "@/parts/UploadField";

interface GenerateRequest {
  input: FileValue | null;
  values: FormValues;
}

/** Submits one job, however often the user presses the button, and opens the page of the job. */
export function useGenerate(effect: Effect) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const key = useRef(new IdempotencyKey());
  const isBusy = useRef(false);
  const mutation = useMutation({
    mutationFn: (request: GenerateRequest) => {
      const body = {
        effect_id: effect.slug,
        input_file_id: request.input?.id,
        input_payload: payloadOf(effect.properties, request.values),
        priority: 0,
      };
      return data(api.POST("/api/ai-jobs", { body: { ...body, idempotency_key: key.current.of(body) } }));
    },
    onSuccess: async (job) => {
      client.setQueryData(keys.job(job.id), job);
      for (const each of [keys.wallet, keys.activeJobs, keys.jobLists])
        void client.invalidateQueries({ queryKey: each });
      await navigate({ to: "/jobs/$id", params: { id: job.id } });
    },
    onSettled: (_job, error) => {
      key.current.settle(error);
      isBusy.current = false;
    },
  });
  return {
    ...mutation,
    /** Two clicks within one frame count as one, because the busy button is drawn only after the first. */
    submit: (request: GenerateRequest) => {
      if (isBusy.current) return;
      isBusy.current = true;
      mutation.mutate(request);
    },
  };
}
