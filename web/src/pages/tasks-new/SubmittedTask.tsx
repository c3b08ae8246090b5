import { useQuery } from "@tanstack/react-query";
import { ArrowUpRight, MessageSquareText } from "lucide-react";
import { jobQuery } from "@/api/queries";
import { isActive } from "@/api/types";
import { Empty, Progress, StatusBadge } from "@/design";
import { DownloadButton } from "@/parts/DownloadButton";
import { readableResult } from "@/parts/job/results";
import { LinkButton } from "@/parts/LinkButton";
import { MediaPlayer } from "@/parts/MediaPlayer";
import { mediaOf } from "@/parts/media";
import { Pending } from "@/parts/Pending";
import { ResultView } from "@/parts/ResultView";
import { useSteadyUrls } from "@/parts/useSteadyUrls";
import { taskTexts } from "@/texts/tasks";

/** The submitted task: its progress, then its result. */
export function SubmittedTask({ jobId }: { jobId: string | undefined }) {
  const job = useQuery({ ...jobQuery(jobId ?? ""), enabled: jobId !== undefined });
  const outputs = useSteadyUrls(job.data?.outputs ?? []);
  if (jobId === undefined) {
    return (
      <div className="rounded-m border border-dashed">
        <Empty icon={<MessageSquareText size={20} />} title={taskTexts.nothingYet} text={taskTexts.nothingYetText} />
      </div>
    );
  }
  if (!job.data) return <Pending query={job} className="h-48 rounded-m!" />;
  const { status, progress, error } = job.data;
  const result = readableResult(job.data.result);
  const media = outputs.map((output) => mediaOf(output)).filter((each) => each !== null);
  return (
    <section aria-label={taskTexts.answer} className="grid gap-4">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <h2>{taskTexts.answer}</h2>
        <StatusBadge status={status} />
        <div className="ml-auto flex items-center gap-1">
          {media.length > 0 && <DownloadButton job={job.data} size="s" />}
          <LinkButton look="quiet" size="s" to="/jobs/$id" params={{ id: jobId }}>
            {taskTexts.openJob}
            <ArrowUpRight size={14} aria-hidden />
          </LinkButton>
        </div>
      </div>
      <div role="status" className="grid gap-4 empty:hidden">
        {isActive(status) && (
          <div className="panel grid gap-3 p-5">
            <p className="text-muted">{progress?.message ?? job.data.why_waiting?.message ?? taskTexts.working}</p>
            <Progress percent={progress?.percent ?? null} label={taskTexts.working} />
          </div>
        )}
        {error && (
          <div className="panel border-l-4 border-l-bad p-5">
            <h3>{taskTexts.failed}</h3>
            <p className="mt-1 break-words text-muted">
              {error.message} {taskTexts.refunded}
            </p>
          </div>
        )}
      </div>
      {media.map((each) => (
        <MediaPlayer key={each.url} media={each} maxHeight="min(50dvh, 30rem)" />
      ))}
      {result !== null && media.length === 0 && <ResultView result={result} />}
      {result !== null && media.length > 0 && (
        <details>
          <summary className="min-h-8 touch:min-h-11 text-s text-muted hover:text-text">{taskTexts.details}</summary>
          <div className="pt-3">
            <ResultView result={result} />
          </div>
        </details>
      )}
      {status === "completed" && result === null && media.length === 0 && (
        <p className="text-muted">{taskTexts.noResult}</p>
      )}
    </section>
  );
}
