import { useEffect, useMemo, useRef, useState } from "react";
import { diffOf, isEmptyDiff, type WorkflowDiff } from "@/parts/workflow/diff";
import { draftOf, type Draft } from "@/parts/workflow/draft";
import { keepDraft, keptDraft } from "@/parts/workflow/drafts";
import type { WorkflowDetail } from "@/parts/workflow/queries";

export interface Editing {
  /** As it is saved. */
  saved: Draft;
  /** As it is edited. */
  draft: Draft;
  diff: WorkflowDiff;
  isDirty: boolean;
  /** Another person saved the workflow after the first change here. */
  isOutdated: boolean;
  change: (update: (draft: Draft) => Draft) => void;
  discard: () => void;
}

/** The unsaved changes of a workflow. They outlast a look at another page, and the tab asks before it is closed. */
export function useWorkflowDraft(workflow: WorkflowDetail): Editing {
  const saved = useMemo(() => draftOf(workflow), [workflow]);
  const [edited, setEdited] = useState<Draft | null>(() => keptDraft(workflow.slug));
  const basedOn = useRef(workflow.updated_at);
  const draft = edited ?? saved;
  const diff = useMemo(() => diffOf(saved, draft), [saved, draft]);
  const isDirty = !isEmptyDiff(diff);
  useEffect(() => keepDraft(workflow.slug, isDirty ? edited : null), [workflow.slug, isDirty, edited]);
  useEffect(() => {
    if (!isDirty) return;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [isDirty]);
  if (edited === null) basedOn.current = workflow.updated_at;
  return {
    saved,
    draft,
    diff,
    isDirty,
    isOutdated: isDirty && basedOn.current !== workflow.updated_at,
    change: (update) => setEdited((now) => update(now ?? saved)),
    discard: () => setEdited(null),
  };
}
