import { Clapperboard, Sparkles } from "lucide-react";
import type { Job, JobSummary } from "@/api/types";
import { Progress } from "@/design";
import { stageOf, stepOf } from "@/parts/job/stages";
import { ratioOf } from "@/parts/media";
import { stillOf } from "@/parts/shown";
import { jobTexts } from "@/texts/job";
import { isMediaJob } from "./names";

/** Shows a working job: its newest preview, or its input until there is a preview. */
export function JobStage({ job, summary }: { job: Job; summary: JobSummary }) {
  const input = job.inputs?.[0];
  const stage = stageOf(job);
  const still = job.progress?.preview_url ?? (input && stillOf(input, "large"));
  const isPreview = Boolean(job.progress?.preview_url);
  return (
    <div>
      <div className="panel overflow-hidden">
        <div
          className="relative overflow-hidden bg-hover"
          style={{ aspectRatio: isMediaJob(summary) ? ratioOf(input) : 16 / 7, maxHeight: "62dvh", width: "100%" }}
        >
          {still ? (
            <>
              {/* Fills the sides of an image with another shape. */}
              <img
                src={still}
                alt=""
                aria-hidden
                className="absolute inset-0 size-full scale-125 object-cover opacity-40 blur-2xl"
              />
              <img
                src={still}
                alt={isPreview ? jobTexts.previewAlt : ""}
                className={`absolute inset-0 size-full object-contain ${isPreview ? "" : "opacity-50"}`}
              />
            </>
          ) : (
            <div
              aria-hidden
              className="absolute inset-0 grid place-items-center bg-[radial-gradient(120%_140%_at_20%_0%,var(--hover),var(--panel)_70%)] text-line-strong"
            >
              {isMediaJob(summary) ? (
                <Clapperboard size={40} strokeWidth={1.2} />
              ) : (
                <Sparkles size={40} strokeWidth={1.2} />
              )}
            </div>
          )}
        </div>
        <div className="border-t px-5 pt-3.5 pb-4">
          <div className="num mb-2.5 flex items-baseline justify-between gap-4">
            <span className="truncate">{progressText(job)}</span>
            <span className="font-[550]">
              {job.progress?.percent != null ? `${Math.floor(job.progress.percent)} %` : ""}
            </span>
          </div>
          <Progress percent={stage === "queued" ? 0 : (job.progress?.percent ?? null)} label={jobTexts.progress} />
        </div>
      </div>
      <p className="mx-0.5 mt-3 text-s text-muted">{jobTexts.closePage}</p>
    </div>
  );
}

function progressText(job: Job): string {
  switch (stageOf(job)) {
    case "queued":
      return jobTexts.waitingStage;
    case "preparing":
      return jobTexts.preparingText;
    case "saving":
      return jobTexts.savingText;
    case "rendering": {
      const { node, step, steps } = stepOf(job.progress?.message ?? "");
      return step !== null && steps !== null ? jobTexts.step(node, step, steps) : node;
    }
  }
}
