import { Link } from "@tanstack/react-router";
import { memo } from "react";
import { isActive, type JobSummary } from "@/api/types";
import { classes, formatTokens, StatusBadge, Time } from "@/design";
import { JobThumb } from "@/parts/JobThumb";
import { stepOf } from "@/parts/job/stages";
import { RowBox, type RowPlace, VirtualRow } from "@/parts/job/VirtualJobList";
import { jobsTexts } from "@/texts/jobs";

export const ROW_HEIGHT = 76;

interface Props extends RowPlace {
  job: JobSummary;
  isSelected: boolean;
  isSelecting: boolean;
  onToggle: (id: string) => void;
}

export const JobRow = memo(function JobRow({ job, isSelected, isSelecting, onToggle, ...place }: Props) {
  return (
    <VirtualRow place={place} height={ROW_HEIGHT} isSelected={isSelected}>
      <RowBox
        name={job.title}
        isSelected={isSelected}
        onToggle={() => onToggle(job.id)}
        className={!isSelecting && "max-md:hidden"}
      />
      <Link
        to="/jobs/$id"
        params={{ id: job.id }}
        preload={false}
        className={classes(
          "grid min-w-0 grow grid-cols-[84px_minmax(0,1fr)_auto] items-center gap-3 pr-4 pl-1.5 focus-visible:outline-offset-[-2px] md:gap-4",
          isSelecting ? "max-sm:grid-cols-[84px_minmax(0,1fr)]" : "max-md:pl-3",
        )}
      >
        <JobThumb job={job} />
        <Words job={job} />
        {/* A phone has no room for the status beside the box. Image and name identify the job. */}
        <span className={classes("grid justify-items-end gap-1", isSelecting && "max-sm:hidden")}>
          <StatusBadge status={job.status} />
          <span className="num flex gap-3 text-xs text-muted">
            {job.cost > 0 && (isActive(job.status) || job.status === "completed") && (
              <span className="max-md:hidden">
                {isActive(job.status) ? jobsTexts.held(formatTokens(job.cost)) : formatTokens(job.cost)}
              </span>
            )}
            <Time at={job.submitted_at} className="whitespace-nowrap" />
          </span>
        </span>
      </Link>
    </VirtualRow>
  );
});

function Words({ job }: { job: JobSummary }) {
  return (
    <span className="min-w-0">
      <span className="flex min-w-0 items-baseline gap-2">
        <span className="truncate font-[550]">{job.title}</span>
        {job.input_name && lineOf(job) !== job.input_name && (
          <span className="truncate text-s text-muted max-md:hidden">{job.input_name}</span>
        )}
      </span>
      <span className="mt-0.5 block truncate text-s text-muted">{lineOf(job)}</span>
      {job.status === "processing" && <Bar percent={job.progress?.percent ?? null} />}
    </span>
  );
}

/** The most important fact: the error, the progress or the prompt. */
function lineOf(job: JobSummary): string {
  if (job.error) return job.error.message;
  if (job.status === "processing" && job.progress?.message) {
    const { node, step, steps } = stepOf(job.progress.message);
    return step === null ? node : `${node} ${step}/${steps}`;
  }
  if (job.prompt) return job.prompt;
  return job.output_count > 1 ? jobsTexts.outputs(job.output_count) : (job.input_name ?? "");
}

function Bar({ percent }: { percent: number | null }) {
  return (
    <span aria-hidden className="mt-1.5 block h-1 max-w-72 overflow-hidden rounded-full bg-line">
      <span
        className="block h-full rounded-full bg-run transition-[width] duration-200"
        style={{ width: `${percent ?? 4}%` }}
      />
    </span>
  );
}
