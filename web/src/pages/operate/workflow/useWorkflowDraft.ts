import { useEffect, useMemo, useState } from "react";
import { useLeaveQuestion } from "@/parts/useLeaveQuestion";
import { diffOf, isEmptyDiff, type WorkflowDiff } from "@/parts/workflow/diff";
import { type Draft, draftOf, rebased } from "@/parts/workflow/draft";
import { keepDraft, keptDraft } from "@/parts/workflow/drafts";
import type { WorkflowDetail } from "@/parts/workflow/queries";

export interface Editing {
  /** The saved state. */
  saved: Draft;
  /** The edited state. */
  draft: Draft;
  diff: WorkflowDiff;
  isDirty: boolean;
  /** The base version of the changes; null if no version exists yet. */
  version: number | null;
  /** Another user saved the workflow after the first change here. */
  isOutdated: boolean;
  change: (update: (draft: Draft) => Draft) => void;
  discard: () => void;
  /** Applies the changes to the version that the other user saved. */
  rebase: (latest: WorkflowDetail) => void;
}

/** Unsaved changes of a workflow. They survive visits to other pages, and the tab asks before it closes. */
export function useWorkflowDraft(workflow: WorkflowDetail): Editing {
  const saved = useMemo(() => draftOf(workflow), [workflow]);
  const newest = workflow.version ?? null;
  const [edit, setEdit] = useState(() => keptDraft(workflow.slug));
  const draft = edit?.draft ?? saved;
  const diff = useMemo(() => diffOf(saved, draft), [saved, draft]);
  const isDirty = !isEmptyDiff(diff);
  const version = isDirty && edit !== null ? edit.version : newest;
  useEffect(() => keepDraft(workflow.slug, isDirty ? edit : null), [workflow.slug, isDirty, edit]);
  useLeaveQuestion(isDirty);
  return {
    saved,
    draft,
    diff,
    isDirty,
    version,
    isOutdated: version !== newest,
    change: (update) =>
      setEdit((now) =>
        isDirty && now !== null
          ? { ...now, draft: update(now.draft) }
          : { base: saved, draft: update(saved), version: newest },
      ),
    discard: () => setEdit(null),
    rebase: (latest) => {
      const theirs = draftOf(latest);
      setEdit(
        (now) => now && { base: theirs, draft: rebased(now.base, now.draft, theirs), version: latest.version ?? null },
      );
    },
  };
}
