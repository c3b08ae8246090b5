import { useMutation } from "@tanstack/react-query";
import { workflowsTexts } from "@/texts/workflows";
import { decoded } from "./decoded";
import type { ApiGraph } from "./draft";
import { parseExact } from "./exact";
import { propose, type WorkflowProposal } from "./queries";

const MAX_BYTES = 8 * 1024 * 1024;

/** The file itself is invalid. */
export class NoExport extends Error {}

export interface ReadExport {
  file: File;
  proposal: WorkflowProposal;
}

/** Reads a ComfyUI export and asks the server which inputs can be set. */
export function useExport() {
  return useMutation({
    mutationFn: async (file: File): Promise<ReadExport> => ({ file, proposal: await propose(await graphIn(file)) }),
  });
}

async function graphIn(file: File): Promise<ApiGraph> {
  if (file.size > MAX_BYTES) throw new NoExport(workflowsTexts.tooLarge(file.name));
  let read: unknown;
  try {
    read = parseExact(decoded(await file.arrayBuffer()));
  } catch {
    throw new NoExport(workflowsTexts.notJson(file.name));
  }
  if (typeof read !== "object" || read === null || Array.isArray(read))
    throw new NoExport(workflowsTexts.notObject(file.name));
  return read as ApiGraph;
}
