import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { hasStatus } from "@/api/problems";
import { isActive, type Job } from "@/api/types";
import { duration, Progress, StatusBadge } from "@/design";
import { BeforeAfter } from "@/parts/BeforeAfter";
import { adminJobQuery, watchedJobQuery } from "@/parts/job/queries";
import { MediaPlayer } from "@/parts/MediaPlayer";
import { mediaOf, ratioOf } from "@/parts/media";
import { Pending } from "@/parts/Pending";
import { useSteadyUrls } from "@/parts/useSteadyUrls";
import { jobTexts } from "@/texts/job";
import { workflowsTexts } from "@/texts/workflows";

/** A test run: its progress, then its result. */
export function TestResult({ id, action }: { id: string; action?: (jobId: string) => ReactNode }) {
  const found = useQuery(watchedJobQuery(id));
  const job = found.data;
  if (hasStatus(found.error, 404)) return <p className="text-s text-muted">{workflowsTexts.resultGone}</p>;
  if (job === undefined) return <Pending query={found} className="h-40 rounded-m!" />;
  // The event for the end of a job arrives before the result is readable.
  const isWorking = isActive(job.status) || !job.completed_at;
  return (
    <section aria-label={workflowsTexts.result} aria-live="polite" className="grid min-w-0 gap-3">
      {isWorking ? <Working job={job} /> : job.status === "completed" ? <Made job={job} /> : <Trouble job={job} />}
      <div className="flex flex-wrap items-center justify-between gap-2 text-s text-muted">
        <StatusBadge status={isWorking && !isActive(job.status) ? "processing" : job.status} />
        {job.started_at && job.completed_at && (
          <span className="num">
            {workflowsTexts.took(duration((Date.parse(job.completed_at) - Date.parse(job.started_at)) / 1000))}
          </span>
        )}
        <Link to="/jobs/$id" params={{ id }} className="hover:text-text hover:underline">
          {workflowsTexts.openJob}
        </Link>
      </div>
      {job.status === "completed" && !isWorking && action?.(id)}
    </section>
  );
}

function Working({ job }: { job: Job }) {
  const preview = job.progress?.preview_url;
  return (
    <div className="overflow-hidden rounded-m border">
      {preview && (
        <img
          src={preview}
          alt={jobTexts.previewAlt}
          className="w-full bg-hover object-contain"
          style={{ aspectRatio: ratioOf(job.inputs?.[0]) }}
        />
      )}
      <div className="grid gap-2 p-3">
        <p className="truncate text-s">{job.why_waiting?.message ?? job.progress?.message ?? jobTexts.waitingStage}</p>
        <Progress
          percent={job.status === "processing" ? (job.progress?.percent ?? null) : 0}
          label={jobTexts.progress}
        />
      </div>
    </div>
  );
}

function Made({ job }: { job: Job }) {
  const [output] = useSteadyUrls(job.outputs ?? []);
  const [input] = useSteadyUrls(job.inputs ?? []);
  const after = output && mediaOf(output);
  const before = input && mediaOf(input);
  if (!after) return <p className="text-muted">{workflowsTexts.noFile}</p>;
  const canCompare = before && before.kind === after.kind && (after.kind === "image" || after.kind === "video");
  return canCompare ? (
    <BeforeAfter before={before} after={after} maxHeight="20rem" />
  ) : (
    <MediaPlayer media={after} maxHeight="20rem" />
  );
}

/** A user who may test a workflow may also read the report of the engine. */
function Trouble({ job }: { job: Job }) {
  const { data: whole } = useQuery(adminJobQuery(job.id));
  const message = whole?.full_error?.message ?? job.error?.message;
  return (
    <div role="alert" className="rounded-s bg-bad-soft px-3 py-2.5 text-s text-bad">
      <p className="font-[550]">{job.status === "canceled" ? workflowsTexts.canceled : workflowsTexts.failed}</p>
      {message && <p className="mt-1 [overflow-wrap:anywhere] whitespace-pre-line">{message}</p>}
    </div>
  );
}
