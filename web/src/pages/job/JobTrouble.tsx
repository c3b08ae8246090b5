import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleSlash, RotateCcw, TriangleAlert, Undo2, Upload } from "lucide-react";
import type { Job, JobSummary } from "@/api/types";
import { Button, formatTokens } from "@/design";
import { LinkButton } from "@/parts/LinkButton";
import { useRole } from "@/parts/useRole";
import { jobTexts } from "@/texts/job";
import { refundQuery } from "./queries";
import { useRetryJob } from "./useJobActions";

const TITLES = {
  failed: jobTexts.failedTitle,
  expired: jobTexts.expiredTitle,
  canceled: jobTexts.canceledTitle,
} as const;

/** Shows for a job without a result: the reason, the returned tokens and the next step. */
export function JobTrouble({ job, summary }: { job: Job; summary: JobSummary }) {
  const retry = useRetryJob(job.id);
  const { mayOperate } = useRole();
  const isCanceled = job.status === "canceled";
  const Icon = isCanceled ? CircleSlash : TriangleAlert;
  return (
    <section className="panel appear grid justify-items-center gap-3 px-6 py-14 text-center" aria-live="polite">
      <div
        className={`grid size-12 place-items-center rounded-m ${isCanceled ? "bg-hover text-muted" : "bg-bad-soft text-bad"}`}
      >
        <Icon size={22} aria-hidden />
      </div>
      <div className="grid max-w-lg gap-1">
        <h2>{TITLES[job.status as keyof typeof TITLES]}</h2>
        <p className="break-words text-muted">{job.error?.message ?? jobTexts.canceledText}</p>
      </div>
      {job.cost > 0 && <Refund job={job} />}
      {!isCanceled && !job.run_id && (
        <div className="flex flex-wrap justify-center gap-2">
          <Button
            look="go"
            busy={retry.isPending}
            onClick={() => retry.mutate()}
            icon={<RotateCcw size={16} aria-hidden />}
          >
            {job.cost > 0 ? jobTexts.retryCosts(formatTokens(job.cost)) : jobTexts.retry}
          </Button>
          {summary.effect_slug && (job.inputs ?? []).length > 0 && (
            <LinkButton
              to="/effects/$slug"
              params={{ slug: summary.effect_slug }}
              search={{ from: job.id, other_file: true }}
            >
              <Upload size={16} aria-hidden />
              {jobTexts.otherFile}
            </LinkButton>
          )}
        </div>
      )}
      {mayOperate && job.error && (
        <Link
          to="/operate/jobs/$id"
          params={{ id: job.id }}
          className="text-s text-muted underline underline-offset-3 hover:text-text"
        >
          {jobTexts.reported}
        </Link>
      )}
    </section>
  );
}

function Refund({ job }: { job: Job }) {
  const { data: refund } = useQuery(refundQuery(job.id, job.charge_cycle));
  // A failed job returns all tokens. A canceled job may have spent some of them.
  const amount = refund?.amount ?? (job.status === "canceled" ? null : job.cost);
  if (amount === null) return null;
  return (
    <p className="num flex items-center gap-2 rounded-full bg-ok-soft px-3 py-1 text-s font-[550] text-ok">
      <Undo2 size={14} aria-hidden />
      {refund?.kept
        ? jobTexts.cameBackExcept(formatTokens(amount), formatTokens(refund.kept))
        : jobTexts.cameBack(formatTokens(amount))}
    </p>
  );
}
