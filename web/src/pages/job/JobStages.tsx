import { Hourglass } from "lucide-react";
import type { Job, JobSummary } from "@/api/types";
import { JobProgress } from "@/parts/JobProgress";
import { useNow } from "@/parts/useNow";
import { isMediaJob } from "./names";

/** The stage of the job, and why it waits. */
export function JobStages({ job, summary }: { job: Job; summary: JobSummary }) {
  const now = useNow(1000);
  return (
    <section className="panel px-5 py-2.5">
      <JobProgress job={job} isMedia={isMediaJob(summary)} now={now} />
      {job.why_waiting && (
        <p role="status" className="mt-1 mb-2.5 flex gap-2.5 rounded-s bg-warn-soft px-3 py-2 text-s text-warn">
          <Hourglass size={15} className="mt-0.5 shrink-0" aria-hidden />
          {job.why_waiting.message}
        </p>
      )}
    </section>
  );
}
