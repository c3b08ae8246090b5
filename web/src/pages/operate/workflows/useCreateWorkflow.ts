import { useQueryClient } from "@tanstack/react-query";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { notifyDone } from "@/parts/notify";
import { useAction, useSave } from "@/parts/useAction";
import { draftOf, UNKNOWN_FILE, withGraph } from "@/parts/workflow/draft";
import { keepDraft } from "@/parts/workflow/drafts";
import { type WorkflowProposal, workflowQuery } from "@/parts/workflow/queries";
import { workflowsTexts } from "@/texts/workflows";

interface CreateRequest {
  name: string;
  slug: string;
  proposal: WorkflowProposal;
}

/** Creates a workflow from the proposal for an export. */
export function useCreateWorkflow(onDone: (slug: string) => void) {
  return useSave({
    mutationFn: ({ name, slug, proposal }: CreateRequest) => {
      const [output] = proposal.outputs;
      const { extension, mime_type } = output ?? UNKNOWN_FILE;
      const result = {
        output_node_id: output?.node_id ?? null,
        output_extension: extension,
        output_mime_type: mime_type,
      };
      const body = {
        name,
        slug,
        graph: proposal.graph,
        properties: proposal.properties,
        ...result,
      } as Schemas["CreateWorkflow"];
      return api.POST("/api/admin/workflows", { body });
    },
    changes: [keys.allWorkflows],
    onSuccess: (_, { name }) => notifyDone(workflowsTexts.created(name)),
    onDone: (_, { slug }) => onDone(slug),
  });
}

/** The export becomes an unsaved change of an existing workflow. */
export function useOpenTaken(onDone: (slug: string) => void) {
  const client = useQueryClient();
  return useAction({
    mutationFn: async ({ slug, proposal }: Omit<CreateRequest, "name">) => {
      const workflow = await client.fetchQuery({ ...workflowQuery(slug), staleTime: 0 });
      const base = draftOf(workflow);
      keepDraft(slug, { base, draft: withGraph(base, proposal), version: workflow.version ?? null });
    },
    onSuccess: (_, { slug }) => onDone(slug),
  });
}
