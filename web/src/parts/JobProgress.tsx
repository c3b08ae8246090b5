import { Check } from "lucide-react";
import type { Job } from "@/api/types";
import { classes, duration } from "@/design";
import { jobTexts } from "@/texts/job";
import { type Stage, stagesOf } from "./job/stages";

interface Props {
  job: Job;
  /** Whether the job makes images. Other work is not called rendering. */
  isMedia: boolean;
  now: number;
}

/** The four stages of an unfinished job, each with its duration. */
export function JobProgress({ job, isMedia, now }: Props) {
  return (
    <ol aria-label={jobTexts.stagesLabel} className="num">
      {stagesOf(job, now).map((stage) => (
        <li
          key={stage.name}
          aria-current={stage.state === "now" ? "step" : undefined}
          className={classes(
            "grid min-h-11 grid-cols-[22px_1fr_auto] items-center gap-2.5 border-t py-2 first:border-0",
            stage.state === "next" && "text-muted",
          )}
        >
          <Dot stage={stage} />
          <span>
            <span className={stage.state === "now" ? "font-[550]" : undefined}>
              {stage.name === "rendering" && !isMedia ? jobTexts.working : jobTexts.stages[stage.name]}
            </span>
            {stage.name === "queued" && stage.state === "now" && <Waiting job={job} />}
          </span>
          <span className="text-s text-muted">
            {stage.seconds === null ? "" : duration(stage.state === "now" ? Math.floor(stage.seconds) : stage.seconds)}
          </span>
        </li>
      ))}
    </ol>
  );
}

function Waiting({ job }: { job: Job }) {
  if (!job.queue_position) return null;
  const text =
    job.queue_position === 1 ? jobTexts.next : jobTexts.position(job.queue_position_text ?? String(job.queue_position));
  return <span className="block text-s text-muted">{text}</span>;
}

function Dot({ stage }: { stage: Stage }) {
  if (stage.state === "done") {
    return (
      <span className="grid size-4.5 place-items-center rounded-full bg-ok text-bg">
        <Check size={12} strokeWidth={3} aria-hidden />
      </span>
    );
  }
  return (
    <span
      aria-hidden
      className={classes(
        "grid size-4.5 place-items-center rounded-full border-2",
        stage.state === "now" ? "border-run shadow-[0_0_0_4px_var(--run-soft)]" : "border-line",
      )}
    >
      {stage.state === "now" && <span className="size-2 animate-pulse rounded-full bg-run" />}
    </span>
  );
}
