import { useQuery } from "@tanstack/react-query";
import { Images, Plus } from "lucide-react";
import { Empty } from "@/design";
import { LinkButton } from "@/parts/LinkButton";
import { Pending } from "@/parts/Pending";
import { EffectGrid } from "@/parts/workflow/EffectGrid";
import { effectRecordsQuery, type WorkflowDetail } from "@/parts/workflow/queries";
import { workflowsTexts } from "@/texts/workflows";

export function EffectsTab({ workflow, mayChange }: { workflow: WorkflowDetail; mayChange: boolean }) {
  const effects = useQuery(effectRecordsQuery(workflow.slug));
  const create = mayChange && workflow.graph && (
    <LinkButton to="/operate/effects" search={{ new: workflow.slug }}>
      <Plus size={16} aria-hidden />
      {workflowsTexts.newEffect}
    </LinkButton>
  );
  if (!effects.data) return <Pending query={effects} className="h-48" />;
  if (effects.data.length === 0)
    return (
      <Empty
        icon={<Images size={20} />}
        title={workflowsTexts.noEffects}
        text={workflowsTexts.noEffectsText}
        action={create || undefined}
      />
    );
  return (
    <section className="grid gap-4">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <div>
          <h2>{workflowsTexts.effects}</h2>
          <p className="text-s text-muted">{workflowsTexts.effectsText}</p>
        </div>
        {create}
      </div>
      <EffectGrid heading="h3" effects={effects.data} inactive={workflow.is_active ? [] : [workflow.slug]} />
    </section>
  );
}
