import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Schemas } from "@/api/types";
import { Button, formatTokens } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { panelTexts, runTexts } from "@/texts/runs";
import { branchQuery, type Candidate, type Run } from "../queries";
import { useBranchAction } from "./useBranchAction";

/** Kills or restores a branch. The server first reports the effect and the returned tokens. */
export function BranchButton({ run, candidate }: { run: Run; candidate: Candidate }) {
  const [isConfirming, setConfirming] = useState(false);
  const action = useBranchAction(run.id);
  const preview = useQuery({ ...branchQuery(candidate.id), enabled: isConfirming });
  const isKill = candidate.status === "active";
  if (!isKill && candidate.rejection !== "killed") return null;
  return (
    <>
      <Button size="s" look={isKill ? "danger" : "plain"} onClick={() => setConfirming(true)}>
        {isKill ? panelTexts.kill : panelTexts.restore}
      </Button>
      {isConfirming && (
        <ConfirmDialog
          danger={isKill}
          title={isKill ? panelTexts.killTitle(candidate.number) : panelTexts.restoreTitle(candidate.number)}
          action={isKill ? panelTexts.killNow : panelTexts.restoreNow}
          keep={runTexts.keep}
          busy={action.isPending}
          disabled={!preview.data || preview.isFetching}
          onConfirm={() => action.mutate({ id: candidate.id, isKill }, { onSettled: () => setConfirming(false) })}
          onClose={() => setConfirming(false)}
        >
          {preview.isError ? (
            <ProblemPanel error={preview.error} onRetry={() => void preview.refetch()} />
          ) : (
            <div className="grid gap-2" role="status">
              {preview.data && !preview.isFetching ? (
                <What preview={preview.data} isKill={isKill} />
              ) : (
                <p className="text-muted">{panelTexts.asking}</p>
              )}
            </div>
          )}
        </ConfirmDialog>
      )}
    </>
  );
}

function What({ preview, isKill }: { preview: Schemas["BranchPreview"]; isKill: boolean }) {
  if (!isKill) return <p>{panelTexts.restoreCandidates(preview.restores)}</p>;
  return (
    <>
      <p>{panelTexts.killCandidates(preview.rejects, preview.has_more)}</p>
      <p className={preview.refund > 0 ? "font-[550] text-ok" : "text-muted"}>
        {preview.cancels_jobs > 0
          ? panelTexts.killJobs(preview.cancels_jobs, formatTokens(preview.refund))
          : panelTexts.killNoJobs}
      </p>
      <p className="text-muted">{panelTexts.killUndo}</p>
    </>
  );
}
