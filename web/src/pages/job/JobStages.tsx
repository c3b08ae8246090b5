import type { Job, JobSummary } from "@/api/types";
import { JobProgress } from "@/parts/JobProgress";
import { useNow } from "@/parts/useNow";
import { WhyWaiting } from "@/parts/WhyWaiting";
import { isMediaJob } from "./names";

/** Shows the stage of the job and the reason why it waits. */
export function JobStages({ job, summary }: { job: Job; summary: JobSummary }) {
  const now = useNow(1000);
  return (
    <section className="panel px-5 py-2.5">
      <JobProgress job={job} isMedia={isMediaJob(summary)} now={now} />
      {job.why_waiting && (
        <div className="mt-1 mb-2.5">
          <WhyWaiting reason={job.why_waiting} />
        </div>
      )}
    </section>
  );
}
