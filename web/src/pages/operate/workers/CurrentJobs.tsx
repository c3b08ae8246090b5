import { Link } from "@tanstack/react-router";
import { classes, Progress } from "@/design";
import { percentText, type Worker } from "@/parts/worker/state";
import { workersTexts as texts } from "@/texts/workers";

/** Number of jobs of a worker, and the progress of the first ones. */
export function CurrentJobs({ worker }: { worker: Worker }) {
  const more = worker.current_load - worker.leases.length;
  return (
    <div className={classes("grid gap-1.5", worker.leases.length > 0 && "min-w-24 sm:min-w-40")}>
      <span className="whitespace-nowrap text-muted">{texts.load(worker.current_load, worker.max_concurrency)}</span>
      {worker.leases.map((lease) => (
        <Link
          key={lease.dispatch_id}
          to="/operate/jobs/$id"
          params={{ id: lease.job_id }}
          title={lease.message ?? undefined}
          className="group grid gap-1"
        >
          <span className="flex justify-between gap-2">
            <span className="truncate group-hover:underline">{lease.workflow}</span>
            <span className="shrink-0">{percentText(lease)}</span>
          </span>
          <Progress percent={lease.percent ?? null} label={texts.progressOf(lease.workflow)} />
        </Link>
      ))}
      {more > 0 && <span className="text-muted">{texts.moreJobs(more)}</span>}
    </div>
  );
}
