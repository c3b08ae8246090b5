import { CircleSlash, Download, RotateCcw, Trash2 } from "lucide-react";
import { useState } from "react";
import { isActive, type JobSummary } from "@/api/types";
import { Button, formatTokens } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { SelectionToolbar } from "@/parts/job/SelectionToolbar";
import type { Selection } from "@/parts/useSelection";
import { jobsTexts } from "@/texts/jobs";
import { type BulkAction, useBulk } from "./useBulk";

const MAX_IN_ZIP = 100;

/** Texts of the dialog before several jobs change: the effect on the jobs and on tokens. */
const QUESTIONS: Record<BulkAction, (jobs: readonly JobSummary[]) => { title: string; text: string; action: string }> =
  {
    cancel: (jobs) => ({
      title: jobsTexts.cancelTitle(jobs.length),
      text: jobsTexts.cancelText(formatTokens(costOf(jobs))),
      action: jobsTexts.cancel,
    }),
    retry: (jobs) => ({
      title: jobsTexts.retryTitle(jobs.length),
      text: costOf(jobs) > 0 ? jobsTexts.retryText(formatTokens(costOf(jobs))) : jobsTexts.retryFree,
      action: jobsTexts.retry,
    }),
    delete: (jobs) => ({
      title: jobsTexts.removeTitle(jobs.length),
      text: jobsTexts.removeText,
      action: jobsTexts.remove,
    }),
  };

/** Actions for the selected jobs. An action that fits none of them is hidden. */
export function SelectionBar({ selection }: { selection: Selection<JobSummary> }) {
  const [confirming, setConfirming] = useState<BulkAction | null>(null);
  const bulk = useBulk(() => {
    setConfirming(null);
    selection.clear();
  });
  const { jobs } = selection;
  if (jobs.length === 0) return null;
  const active = jobs.filter((job) => isActive(job.status));
  const ended = jobs.filter((job) => !isActive(job.status));
  const failed = jobs.filter((job) => job.status === "failed" || job.status === "expired");
  const made = jobs.filter((job) => job.output_count > 0);
  const chosen = confirming === "cancel" ? active : confirming === "retry" ? failed : ended;
  return (
    <>
      <SelectionToolbar count={jobsTexts.selected(jobs.length)} onClear={selection.clear}>
        {active.length > 0 && (
          <Button look="quiet" onClick={() => setConfirming("cancel")} icon={<CircleSlash size={16} aria-hidden />}>
            <Word>{jobsTexts.cancel}</Word>
          </Button>
        )}
        {failed.length > 0 && (
          <Button look="quiet" onClick={() => setConfirming("retry")} icon={<RotateCcw size={16} aria-hidden />}>
            <Word>{jobsTexts.retry}</Word>
          </Button>
        )}
        {made.length > 0 &&
          (made.length > MAX_IN_ZIP ? (
            <span className="px-2 text-s text-muted">{jobsTexts.tooManyToDownload(MAX_IN_ZIP)}</span>
          ) : (
            <Button look="quiet" asChild>
              <a href={`/api/library/download?${made.map((job) => `job_id=${job.id}`).join("&")}`} download>
                <Download size={16} aria-hidden />
                <Word>{jobsTexts.download}</Word>
              </a>
            </Button>
          ))}
        {ended.length > 0 && (
          <Button look="quiet" onClick={() => setConfirming("delete")} icon={<Trash2 size={16} aria-hidden />}>
            <Word>{jobsTexts.remove}</Word>
          </Button>
        )}
      </SelectionToolbar>
      {confirming && (
        <ConfirmDialog
          {...QUESTIONS[confirming](chosen)}
          danger={confirming !== "retry"}
          keep={jobsTexts.keep}
          busy={bulk.isPending}
          onConfirm={() => bulk.mutate({ action: confirming, ids: chosen.map((job) => job.id) })}
          onClose={() => setConfirming(null)}
        />
      )}
    </>
  );
}

function costOf(jobs: readonly JobSummary[]): number {
  return jobs.reduce((sum, job) => sum + job.cost, 0);
}

/** On phones and tablets only the icon is shown, so the bar stays one line. */
function Word({ children }: { children: string }) {
  return <span className="max-lg:sr-only">{children}</span>;
}
