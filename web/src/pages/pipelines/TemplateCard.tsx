import { Play } from "lucide-react";
import { formatNumber, formatTokens } from "@/design";
import { LinkButton } from "@/parts/LinkButton";
import { ChainDrawing } from "@/parts/pipeline/ChainDrawing";
import { expectedCounts } from "@/parts/pipeline/chain";
import type { PipelineTemplate } from "@/parts/pipeline/queries";
import { pipelinesTexts } from "@/texts/pipelines";

export function TemplateCard({ template, mayStart }: { template: PipelineTemplate; mayStart: boolean }) {
  const counts = expectedCounts(template.steps, template.run.target_leaves, template.run.strategy);
  const links = template.steps.map((step, index) => ({
    name: step.name,
    count: counts[index]!,
    hasGate: step.requires_approval,
    best: step.top_k,
  }));
  return (
    <article className="panel grid content-start gap-3 p-4">
      <div>
        <h3 className="text-l!">{template.name}</h3>
        <p className="text-s text-muted">{template.description}</p>
      </div>
      <ChainDrawing links={links} isSmall />
      <p className="num mt-auto text-s text-muted">
        {pipelinesTexts.about(formatNumber(template.jobs), template.jobs)} · {formatTokens(template.cost)}
      </p>
      {mayStart && (
        <div className="flex flex-wrap gap-2">
          <LinkButton
            look="go"
            size="s"
            to="/pipelines"
            search={{ start: template.slug }}
            resetScroll={false}
            aria-label={`${pipelinesTexts.start}: ${template.name}`}
          >
            <Play size={14} aria-hidden />
            {pipelinesTexts.start}
          </LinkButton>
          <LinkButton
            look="quiet"
            size="s"
            to="/pipelines/new"
            search={{ template: template.slug }}
            aria-label={`${pipelinesTexts.use}: ${template.name}`}
          >
            {pipelinesTexts.use}
          </LinkButton>
        </div>
      )}
    </article>
  );
}
