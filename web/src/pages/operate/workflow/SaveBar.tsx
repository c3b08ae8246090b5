import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { explain, hasStatus } from "@/api/problems";
import { Button, Dialog } from "@/design";
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

/** The bar stays visible on the whole page while there are unsaved changes. */
export function SaveBar({ workflow, editing, save }: Props) {
  const [dialog, setDialog] = useState<"save" | "discard" | null>(null);
  const client = useQueryClient();
  const effects = useQuery(effectRecordsQuery(workflow.slug));
  const published = effects.data?.filter((each) => each.is_published).length ?? 0;
  const close = () => setDialog(null);
  const isRefused = hasStatus(save.error, 409);
  const goOn = async () => {
    editing.rebase(await client.fetchQuery({ ...workflowQuery(workflow.slug), staleTime: 0 }));
    save.reset();
  };
  const saveIt = () => {
    close();
    save.mutate({ saved: editing.saved, draft: editing.draft, version: editing.version });
  };
  return (
    <section
      aria-label={workflowsTexts.unsaved}
      className="appear sticky bottom-[calc(4rem+env(safe-area-inset-bottom))] z-20 mt-6 grid gap-2 rounded-m border bg-panel/95 px-4 py-3 shadow-high backdrop-blur-md md:bottom-4"
    >
      {save.error !== null && (
        <p role="alert" className="text-s text-bad [overflow-wrap:anywhere]">
          {isRefused ? workflowsTexts.changedByOther : explain(save.error)}
        </p>
      )}
      {editing.isOutdated && !isRefused && <p className="text-s text-warn">{workflowsTexts.changedByOther}</p>}
      <div className="flex flex-wrap items-center justify-between gap-3">
        <p className="min-w-0">
          <span className="font-[550]">{workflowsTexts.unsaved}</span>{" "}
          <span className="text-muted">{diffSummary(editing.diff)}</span>
        </p>
        <div className="flex gap-2">
          <Button onClick={() => setDialog("discard")}>{workflowsTexts.discard}</Button>
          {isRefused || editing.isOutdated ? (
            <Button look="go" onClick={() => void goOn()}>
              {workflowsTexts.goOn}
            </Button>
          ) : (
            <Button look="go" busy={save.isPending} onClick={() => setDialog("save")}>
              {workflowsTexts.review}
            </Button>
          )}
        </div>
      </div>
      <Dialog
        wide
        open={dialog === "save"}
        onOpenChange={(open) => !open && close()}
        title={workflowsTexts.saveTitle}
        text={workflowsTexts.saveText(published)}
        actions={
          <>
            <Button onClick={close}>{workflowsTexts.cancel}</Button>
            <Button look="go" onClick={saveIt}>
              {workflowsTexts.save}
            </Button>
          </>
        }
      >
        <DiffView diff={editing.diff} />
      </Dialog>
      <Dialog
        open={dialog === "discard"}
        onOpenChange={(open) => !open && close()}
        title={workflowsTexts.discardTitle}
        text={workflowsTexts.discardText}
        actions={
          <>
            <Button onClick={close}>{workflowsTexts.keep}</Button>
            <Button
              look="danger"
              onClick={() => {
                close();
                save.reset();
                editing.discard();
              }}
            >
              {workflowsTexts.discard}
            </Button>
          </>
        }
      />
    </section>
  );
}
