import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { hasStatus } from "@/api/problems";
import { isActive, type Job } from "@/api/types";
import { watchedJobQuery } from "@/parts/job/queries";
import { Timeline } from "@/parts/Timeline";
import { useTitle } from "@/parts/useTitle";
import { jobTexts } from "@/texts/job";
import { JobDetails } from "./JobDetails";
import { JobHead } from "./JobHead";
import { JobNotFound } from "./JobNotFound";
import { JobResult } from "./JobResult";
import { JobStage } from "./JobStage";
import { JobStages } from "./JobStages";
import { JobTrouble } from "./JobTrouble";
import { jobEventsQuery, summaryQuery } from "./queries";

export function JobPage() {
  const { id } = useParams({ from: "/framed/jobs/$id" });
  const found = useSuspenseQuery(watchedJobQuery(id));
  const { data: summary } = useSuspenseQuery(summaryQuery(id));
  const events = useQuery(jobEventsQuery(id));
  const name = summary.input_name ? jobTexts.on(summary.title, summary.input_name) : summary.title;
  useTitle(name);
  // The job was deleted in another tab while this page was open.
  if (hasStatus(found.error, 404)) return <JobNotFound />;
  // The event for the end of a job arrives before the result is readable.
  const isEnding = !isActive(found.data.status) && !found.data.completed_at;
  const job: Job = isEnding ? { ...found.data, status: "processing" } : found.data;
  return (
    <>
      <JobHead job={job} summary={summary} name={name} estimatedAt={found.dataUpdatedAt} />
      <div className="grid items-start gap-6 lg:grid-cols-[minmax(0,1.6fr)_minmax(300px,1fr)]">
        <div className="grid min-w-0 gap-4">
          {isActive(job.status) ? (
            <JobStage job={job} summary={summary} />
          ) : job.status === "completed" ? (
            <JobResult job={job} />
          ) : (
            <JobTrouble job={job} summary={summary} />
          )}
        </div>
        <div className="grid min-w-0 gap-4">
          {isActive(job.status) && <JobStages job={job} summary={summary} />}
          <JobDetails job={job} summary={summary} />
          <section className="panel p-5">
            <h2 className="mb-4">{jobTexts.timeline}</h2>
            <Timeline events={events.data} />
          </section>
        </div>
      </div>
    </>
  );
}
