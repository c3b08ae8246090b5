import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useRef } from "react";
import { api, data } from "@/api/client";
import { IdempotencyKey } from "@/api/idempotency";
import { keys } from "@/api/keys";
import { ApiError } from "@/api/problems";
import type { Schemas } from "@/api/types";
import { notifyDone, notifyError } from "@/parts/notify";
import { editorTexts } from "@/texts/pipelines";
import { type NewStep, slugOf } from "./draft";
import type { Pipeline } from "./queries";

export interface Saved {
  name: string;
  description: string;
  steps: NewStep[];
}

const MAX_NAMES = 20;

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
  const base = slugOf(wanted.name) || "pipeline";
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

/** Starts one run, however often the user presses the button. */
export function useStartRun() {
  const client = useQueryClient();
  const navigate = useNavigate();
  const key = useRef(new IdempotencyKey());
  return useMutation({
    mutationFn: ({ pipeline, run }: { pipeline: string; run: Omit<Schemas["CreateRun"], "idempotency_key"> }) =>
      data(
        api.POST("/api/pipelines/{pipeline}/runs", {
          params: { path: { pipeline } },
          body: { ...run, idempotency_key: key.current.of({ pipeline, run }) },
        }),
      ),
    onSuccess: (run) => {
      for (const each of [keys.pipelines, keys.wallet, keys.activeJobs])
        void client.invalidateQueries({ queryKey: each });
      void navigate({ to: "/runs/$id", params: { id: run.id } });
    },
    onSettled: (_run, error) => key.current.settle(error),
  });
}

export function useDeletePipeline(id: string) {
  const client = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: () => data(api.DELETE("/api/pipelines/{pipeline}", { params: { path: { pipeline: id } } })),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.pipelines });
      void notifyDone(editorTexts.removed);
      void navigate({ to: "/pipelines" });
    },
    onError: (error) => void notifyError(error),
  });
}
