import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, data } from "@/api/client";
import type { IdempotencyKey } from "@/api/idempotency";
import { keys } from "@/api/keys";
import { ApiError } from "@/api/problems";
import type { Schemas } from "@/api/types";
import { notifyDone } from "@/parts/notify";
import { slugOf } from "@/parts/slugs";
import { useAction } from "@/parts/useAction";
import { useSubmission } from "@/parts/useSubmission";
import { editorTexts } from "@/texts/pipelines";
import type { NewStep } from "./draft";
import type { Pipeline } from "./queries";

export interface Saved {
  name: string;
  description: string;
  steps: NewStep[];
}

const MAX_NAMES = 20;
// A slug has at most 63 characters, and a number may follow.
const MAX_BASE = 60;

/** Creates a pipeline, or a new version of an existing one. */
export function useSavePipeline(pipeline: Pipeline | null) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (wanted: Saved): Promise<Pipeline> =>
      pipeline === null
        ? created(wanted)
        : data(api.PATCH("/api/pipelines/{pipeline}", { params: { path: { pipeline: pipeline.id } }, body: wanted })),
    onSuccess: (saved) => {
      void client.invalidateQueries({ queryKey: keys.pipelines });
      void client.invalidateQueries({ queryKey: keys.pipelineVersions(saved.slug) });
    },
  });
}

/** The slug follows from the name. If it is taken, it gets the next number. */
async function created(wanted: Saved): Promise<Pipeline> {
  const base = slugOf(wanted.name).slice(0, MAX_BASE) || "pipeline";
  for (let number = 1; ; number += 1) {
    const slug = number === 1 && base !== "new" ? base : `${base}-${number}`;
    try {
      return await data(api.POST("/api/pipelines", { body: { ...wanted, slug } }));
    } catch (error) {
      if (
        number >= MAX_NAMES ||
        !(error instanceof ApiError) ||
        error.status !== 409 ||
        error.fieldReason("slug") === null
      )
        throw error;
    }
  }
}

/** Starts one run and opens its page. */
export function useStartRun() {
  const navigate = useNavigate();
  return useSubmission({
    send: (
      { pipeline, run }: { pipeline: string; run: Omit<Schemas["CreateRun"], "idempotency_key"> },
      key: IdempotencyKey,
    ) =>
      data(
        api.POST("/api/pipelines/{pipeline}/runs", {
          params: { path: { pipeline } },
          body: { ...run, idempotency_key: key.of({ pipeline, run }) },
        }),
      ),
    changes: [keys.pipelines, keys.wallet, keys.activeJobs],
    onSuccess: (run) => void navigate({ to: "/runs/$id", params: { id: run.id } }),
  });
}

export function useDeletePipeline(id: string) {
  const navigate = useNavigate();
  return useAction({
    mutationFn: () => data(api.DELETE("/api/pipelines/{pipeline}", { params: { path: { pipeline: id } } })),
    changes: [keys.pipelines],
    onSuccess: () => {
      void notifyDone(editorTexts.removed);
      void navigate({ to: "/pipelines" });
    },
  });
}
