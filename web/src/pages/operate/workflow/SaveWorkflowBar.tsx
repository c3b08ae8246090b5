import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { hasStatus } from "@/api/problems";
import { Button } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { SaveBar } from "@/parts/SaveBar";
import { DiffView, diffSummary } from "@/parts/workflow/DiffView";
import { effectRecordsQuery, type WorkflowDetail, workflowQuery } from "@/parts/workflow/queries";
import { workflowsTexts } from "@/texts/workflows";
import type { useSaveWorkflow } from "./useWorkflowActions";
import type { Editing } from "./useWorkflowDraft";

interface Props {
  workflow: WorkflowDetail;
  editing: Editing;
  save: ReturnType<typeof useSaveWorkflow>;
}

export function SaveWorkflowBar({ workflow, editing, save }: Props) {
  const [dialog, setDialog] = useState<"save" | "discard" | null>(null);
  const client = useQueryClient();
  const effects = useQuery(effectRecordsQuery(workflow.slug));
  const published = effects.data?.filter((each) => each.is_published).length ?? 0;
  const close = () => setDialog(null);
  const isRefused = hasStatus(save.error, 409);
  const rebase = async () => {
    editing.rebase(await client.fetchQuery({ ...workflowQuery(workflow.slug), staleTime: 0 }));
    save.reset();
  };
  return (
    <>
      <SaveBar
        label={workflowsTexts.unsaved}
        refusal={isRefused ? workflowsTexts.changedByOther : save.error}
        warning={editing.isOutdated && !isRefused && workflowsTexts.changedByOther}
        actions={
          <>
            <Button onClick={() => setDialog("discard")}>{workflowsTexts.discard}</Button>
            {isRefused || editing.isOutdated ? (
              <Button look="go" onClick={() => void rebase()}>
                {workflowsTexts.goOn}
              </Button>
            ) : (
              <Button look="go" busy={save.isPending} onClick={() => setDialog("save")}>
                {workflowsTexts.review}
              </Button>
            )}
          </>
        }
      >
        <span className="font-[550]">{workflowsTexts.unsaved}</span>{" "}
        <span className="text-muted">{diffSummary(editing.diff)}</span>
      </SaveBar>
      {dialog === "save" && (
        <ConfirmDialog
          wide
          title={workflowsTexts.saveTitle}
          text={workflowsTexts.saveText(published)}
          action={workflowsTexts.save}
          onConfirm={() => {
            close();
            save.mutate({ saved: editing.saved, draft: editing.draft, version: editing.version });
          }}
          onClose={close}
        >
          <DiffView diff={editing.diff} />
        </ConfirmDialog>
      )}
      {dialog === "discard" && (
        <ConfirmDialog
          danger
          title={workflowsTexts.discardTitle}
          text={workflowsTexts.discardText}
          action={workflowsTexts.discard}
          keep={workflowsTexts.keep}
          onConfirm={() => {
            close();
            save.reset();
            editing.discard();
          }}
          onClose={close}
        />
      )}
    </>
  );
}
