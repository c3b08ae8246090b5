import { useNavigate } from "@tanstack/react-router";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { ApiError } from "@/api/problems";
import type { Schemas } from "@/api/types";
import type { PipelineTemplate } from "@/parts/pipeline/queries";
import { useSubmission } from "@/parts/useSubmission";

export interface TemplateInputs {
  prompt: string | null;
  variables: Record<string, string>;
  budget: number;
}

// Pipelines from the same template that a user has changed.
const MAX_NAMES = 20;

/** Creates the pipeline if it is missing and starts one run. */
export function useStartTemplate(template: PipelineTemplate) {
  const navigate = useNavigate();
  return useSubmission({
    send: async (inputs: TemplateInputs, key) => {
      const slug = await pipelineFor(template);
      const { target_leaves, strategy } = template.run;
      const body = { name: template.name, target_leaves, strategy, ...inputs };
      return data(
        api.POST("/api/pipelines/{pipeline}/runs", {
          params: { path: { pipeline: slug } },
          body: { ...body, idempotency_key: key.of(body) },
        }),
      );
    },
    changes: [keys.allPipelines, keys.wallet, keys.activeJobs],
    onSuccess: (run) => void navigate({ to: "/runs/$id", params: { id: run.id } }),
  });
}

/** Slug of a pipeline with the steps of the template: an existing one, or a new one. */
async function pipelineFor(template: PipelineTemplate): Promise<string> {
  const steps: Schemas["NewStep"][] = template.steps;
  for (let number = 1; number <= MAX_NAMES; number += 1) {
    const slug = number === 1 ? template.slug : `${template.slug}-${number}`;
    const name = number === 1 ? template.name : `${template.name} ${number}`;
    try {
      await data(api.POST("/api/pipelines", { body: { slug, name, description: template.description, steps } }));
      return slug;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 409 || error.fieldReason("slug") === null) throw error;
      if (await isUnchanged(slug, steps)) return slug;
    }
  }
  throw new Error(template.slug);
}

/** Whether the existing pipeline has the same steps, so a save would create no new version. */
async function isUnchanged(slug: string, steps: Schemas["NewStep"][]): Promise<boolean> {
  const path = { pipeline: slug };
  const found = await data(api.GET("/api/pipelines/{pipeline}", { params: { path } }));
  const planned = await data(
    api.PATCH("/api/pipelines/{pipeline}", { params: { path, query: { dry_run: true } }, body: { steps } }),
  );
  return planned.version === found.version;
}
