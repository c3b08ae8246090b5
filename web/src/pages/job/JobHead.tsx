import { Link } from "@tanstack/react-router";
import { ChevronLeft } from "lucide-react";
import { isActive, type Job, type JobSummary } from "@/api/types";
import { duration, PageHead, StatusBadge, Time } from "@/design";
import { roughly, secondsLeft } from "@/parts/job/stages";
import { useNow } from "@/parts/useNow";
import { jobTexts } from "@/texts/job";
import { CancelButton } from "./CancelButton";
import { JobActions } from "./JobActions";

interface Props {
  job: Job;
  summary: JobSummary;
  name: string;
  /** Time at which the API estimated the duration. */
  estimatedAt: number;
}

export function JobHead({ job, summary, name, estimatedAt }: Props) {
  return (
    <PageHead
      above={
        <span className="flex items-center gap-2">
          <Link
            to="/jobs"
            className="-ml-1.5 flex min-h-8 touch:min-h-11 items-center gap-0.5 rounded-s pr-2 pl-0.5 text-muted hover:bg-hover hover:text-text"
          >
            <ChevronLeft size={16} aria-hidden />
            {jobTexts.jobs}
          </Link>
          <span role="status">
            <StatusBadge status={job.status} />
          </span>
        </span>
      }
      title={name}
      text={isActive(job.status) ? <Going job={job} estimatedAt={estimatedAt} /> : <Ended job={job} />}
      actions={
        isActive(job.status) ? (
          <CancelButton job={job} effectSlug={summary.effect_slug} />
        ) : (
          <JobActions job={job} summary={summary} />
        )
      }
    />
  );
}

function Going({ job, estimatedAt }: { job: Job; estimatedAt: number }) {
  const now = useNow(1000);
  const since = Math.max(0, Math.floor((now - Date.parse(job.started_at ?? job.submitted_at)) / 1000));
  const left = secondsLeft(job, estimatedAt, now);
  const time = since < 60 ? `${since} s` : duration(since);
  const parts = [job.status === "processing" ? jobTexts.started(time) : jobTexts.waited(time)];
  if (left !== null) parts.push(left < 1 ? jobTexts.almostDone : jobTexts.left(roughly(left)));
  return <span className="num">{parts.join(" · ")}</span>;
}

function Ended({ job }: { job: Job }) {
  if (!job.completed_at) return null;
  const ran = job.started_at ? (Date.parse(job.completed_at) - Date.parse(job.started_at)) / 1000 : null;
  const waited = job.started_at ? (Date.parse(job.started_at) - Date.parse(job.submitted_at)) / 1000 : null;
  return (
    <span className="num">
      <Time at={job.completed_at} />
      {job.status === "completed" && ran !== null && ` · ${jobTexts.took(duration(Math.max(0, ran)))}`}
      {job.status === "completed" && waited !== null && waited >= 1 && ` ${jobTexts.waitedBefore(duration(waited))}`}
    </span>
  );
}
