import { useNavigate, useSearch } from "@tanstack/react-router";
import { ChevronDown, FileX2 } from "lucide-react";
import type { Job } from "@/api/types";
import { Empty } from "@/design";
import { BeforeAfter } from "@/parts/BeforeAfter";
import { type ReadableResult, readableResult } from "@/parts/job/results";
import { MediaPlayer } from "@/parts/MediaPlayer";
import { mediaOf } from "@/parts/media";
import { ResultView } from "@/parts/ResultView";
import { useSteadyUrls } from "@/parts/useSteadyUrls";
import { jobTexts } from "@/texts/job";
import { OutputStrip } from "./OutputStrip";

/** Result of a completed job: its files, compared with their inputs, and the returned values. */
export function JobResult({ job }: { job: Job }) {
  const outputs = useSteadyUrls(job.outputs ?? []);
  const inputs = useSteadyUrls(job.inputs ?? []);
  const { output: wanted = 1 } = useSearch({ from: "/framed/jobs/$id" });
  const navigate = useNavigate({ from: "/jobs/$id" });
  const chosen = wanted <= outputs.length ? wanted - 1 : 0;
  const choose = (index: number) =>
    void navigate({ search: { output: index === 0 ? undefined : index + 1 }, replace: true, resetScroll: false });
  const output = outputs[chosen];
  const after = output && mediaOf(output);
  const [before, ...others] = inputs.map(mediaOf);
  const result = readableResult(job.result);
  const canCompare =
    after && before && chosen === 0 && after.kind === before.kind && (after.kind === "image" || after.kind === "video");
  // Two sounds, or a text about an image, cannot be laid on top of each other.
  const isBeside =
    before && !canCompare && (before.kind === "audio" || after?.kind === "audio" || after?.kind === "text");
  const shownInputs =
    chosen === 0
      ? [...(isBeside ? [before] : []), ...others.filter((each) => each !== null && each.kind === "audio")]
      : [];
  if (!after && !result) {
    return (
      <div className="panel">
        <Empty
          icon={<FileX2 size={20} />}
          title={output ? jobTexts.noOutputs : jobTexts.emptyResult}
          text={output ? jobTexts.noOutputsText : undefined}
        />
      </div>
    );
  }
  return (
    <section aria-label={jobTexts.result} className="appear grid min-w-0 gap-4">
      {after && (canCompare ? <BeforeAfter before={before} after={after} /> : <MediaPlayer media={after} />)}
      {outputs.length > 1 && <OutputStrip outputs={outputs} chosen={chosen} onChoose={choose} />}
      {shownInputs.length > 0 && (
        <div className="grid gap-2">
          <h2 className="text-s font-[550] text-muted">{jobTexts.input}</h2>
          {shownInputs.map((media) => media && <MediaPlayer key={media.url} media={media} maxHeight="20rem" />)}
        </div>
      )}
      {result && (after ? <Returned result={result} /> : <ResultView result={result} />)}
    </section>
  );
}

/** Returned values are below the files, because most people open the page for the files. */
function Returned({ result }: { result: ReadableResult }) {
  return (
    <details className="group panel">
      <summary className="flex min-h-11 list-none items-center justify-between px-5 text-muted hover:text-text [&::-webkit-details-marker]:hidden">
        {jobTexts.returned}
        <ChevronDown size={16} className="transition-transform duration-100 group-open:rotate-180" aria-hidden />
      </summary>
      <div className="border-t p-5">
        <ResultView result={result} isTop={false} />
      </div>
    </details>
  );
}
