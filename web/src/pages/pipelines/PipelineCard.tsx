import { Link } from "@tanstack/react-router";
import { Badge, Time } from "@/design";
import { ChainDrawing } from "@/parts/pipeline/ChainDrawing";
import { countsPerBase } from "@/parts/pipeline/chain";
import { needsUser, toneOf } from "@/parts/run/state";
import { pipelinesTexts } from "@/texts/pipelines";
import { runTexts } from "@/texts/runs";
import type { ListedPipeline } from "./queries";

export function PipelineCard({ pipeline }: { pipeline: ListedPipeline }) {
  const { chain, last_run: run } = pipeline;
  const counts = countsPerBase(chain);
  const links = chain.map((step, index) => ({
    name: step.name,
    count: counts[index]!,
    hasGate: step.requires_approval,
    best: step.top_k,
  }));
  // A pipeline may be called "new", and /pipelines/new is another page.
  const slug = pipeline.slug === "new" ? pipeline.id : pipeline.slug;
  return (
    <article className="panel relative grid content-start gap-3 p-4 transition-colors duration-100 hover:border-line-strong">
      <div className="min-w-0">
        <h2 className="truncate">
          <Link to="/pipelines/$slug" params={{ slug }} className="after:absolute after:inset-0 after:rounded-m">
            {pipeline.name}
          </Link>
        </h2>
        <p className="num text-s text-muted">
          {pipelinesTexts.steps(chain.length)} · {pipelinesTexts.version(pipeline.version)}
        </p>
      </div>
      <ChainDrawing links={links} isSmall />
      <div className="mt-auto flex min-h-6 items-center justify-between gap-3 border-t pt-3 text-s">
        {run ? (
          <>
            <Link to="/runs/$id" params={{ id: run.id }} className="relative z-10 min-w-0 truncate hover:underline">
              <span className="sr-only">{pipelinesTexts.lastRun}: </span>
              {run.name} · <Time at={run.created_at} className="text-muted" />
            </Link>
            <Badge tone={toneOf(run)}>{needsUser(run) ? runTexts.waits : runTexts.status[run.status]}</Badge>
          </>
        ) : (
          <span className="text-muted">{pipelinesTexts.noRun}</span>
        )}
      </div>
    </article>
  );
}
