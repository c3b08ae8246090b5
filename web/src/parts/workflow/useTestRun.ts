import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import type { PlainValue } from "@/parts/form/values";
import type { Draft } from "./draft";

interface TestRequest {
  values: Record<string, PlainValue>;
  fileId: string | undefined;
  overrides: Record<string, unknown>;
  draft: Draft | null;
  stage: string | undefined;
}

/** Runs a workflow, or its unsaved change, as a free job of this operator. */
export function useTestRun(slug: string, onJob: (id: string) => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ values, fileId, overrides, draft, stage }: TestRequest) => {
      const changed = draft && {
        graph: draft.graph,
        properties: draft.properties,
        output_node_id: draft.output_node_id ?? null,
        output_extension: draft.output_extension,
        output_mime_type: draft.output_mime_type,
        keep_metadata: draft.keep_metadata,
      };
      const body = {
        input_payload: values,
        input_file_id: fileId,
        overrides,
        draft: changed,
        ...(stage === undefined ? {} : { stage }),
      } as Schemas["WorkflowTest"];
      return data(
        api.POST("/api/admin/workflows/{workflow}/test-runs", { params: { path: { workflow: slug } }, body }),
      );
    },
    onSuccess: (job) => {
      client.setQueryData(keys.job(job.id), job);
      onJob(job.id);
    },
  });
}
