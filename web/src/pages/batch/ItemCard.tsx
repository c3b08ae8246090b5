import { Link } from "@tanstack/react-router";
import { Sparkles } from "lucide-react";
import { memo } from "react";
import type { JobSummary } from "@/api/types";
import { classes, StatusBadge } from "@/design";
import { Still } from "@/parts/Still";
import { stillOf } from "@/parts/shown";
import { batchTexts } from "@/texts/batch";

/** One item: its result, or its input and how far it is. */
export const ItemCard = memo(function ItemCard({ job }: { job: JobSummary }) {
  const file = job.output ?? job.input;
  const name = job.input_name ?? job.prompt ?? job.title;
  const isDone = job.status === "completed";
  return (
    <div className="min-w-0 [content-visibility:auto] [contain-intrinsic-size:auto_146px] sm:[contain-intrinsic-size:auto_170px]">
      <Link
        to="/jobs/$id"
        params={{ id: job.id }}
        preload={false}
        className="panel block overflow-hidden hover:border-line-strong"
      >
        <span className="relative grid aspect-[4/3] place-items-center bg-hover text-muted">
          <Still still={file && stillOf(file, "large")} file={file} alt="" className={job.output ? "" : "opacity-40"}>
            <Sparkles size={22} strokeWidth={1.6} aria-hidden />
          </Still>
          {!isDone && (
            <span className="absolute top-2 left-2">
              <StatusBadge status={job.status} />
            </span>
          )}
          {job.status === "processing" && (
            <span aria-hidden className="absolute inset-x-0 bottom-0 h-1 bg-line">
              <span
                className="block h-full bg-run transition-[width] duration-200"
                style={{ width: `${job.progress?.percent ?? 4}%` }}
              />
            </span>
          )}
        </span>
        <span className="flex items-baseline gap-2 px-3 py-2 text-s">
          <span className="num text-muted">
            <span className="sr-only">{batchTexts.item} </span>
            {job.batch_item}
          </span>
          <span className={classes("truncate", job.error && "text-bad")} title={job.error?.message ?? name}>
            {job.error?.message ?? name}
          </span>
        </span>
      </Link>
    </div>
  );
});
