import { type DragEvent, lazy, Suspense } from "react";
import { Skeleton } from "@/design";
import { type Actor, schemaOf, variantOf } from "@/parts/actors";
import { TemplateContext, type Templates } from "@/parts/form/templates";
import { editorTexts } from "@/texts/pipelines";
import { freshName, isActor, type Payload, type StepDraft, type StepWorkflow, startPayload, workflowOf } from "./draft";
import { StepGates } from "./StepGates";
import { StepHead } from "./StepHead";
import { SurroundingsContext } from "./surroundings";
import { TemplateControl } from "./TemplateControl";
import { isTemplate, placeholder } from "./variables";
import { WorkflowFields } from "./WorkflowFields";
import { WorkflowPicker } from "./WorkflowPicker";

// The forms of actors load with the first step that uses an actor.
const ActorFields = lazy(async () => ({ default: (await import("./ActorFields")).ActorFields }));

interface Props {
  step: StepDraft;
  index: number;
  names: readonly string[];
  /** Variables of the other steps. */
  known: readonly string[];
  workflows: readonly StepWorkflow[];
  actors: readonly Actor[];
  problems: Record<string, string>;
  onChange: (change: Partial<StepDraft>) => void;
  onMove: (to: number) => void;
  onRemove: () => void;
  onDragStart: (event: DragEvent) => void;
  onDragEnd: () => void;
}

const TEMPLATES: Templates = { Control: TemplateControl, isTemplate, placeholder };

export function StepCard({ step, index, names, known, workflows, actors, problems, onChange, ...head }: Props) {
  const info = isActor(step.workflow) ? null : workflowOf(step, workflows);
  const actor = isActor(step.workflow) ? actors.find((each) => each.name === step.workflow.split(":")[1]) : undefined;
  const isFirst = index === 0;
  // A default name changes with the workflow. A name that the user typed stays.
  const named = (title: string) =>
    step.name === "" ||
    workflows.some((each) => step.name.startsWith(each.name)) ||
    step.name.startsWith(editorTexts.stepNumber(index + 1))
      ? freshName(
          title,
          names.filter((each) => each !== step.name),
        )
      : step.name;
  const takeActor = (chosen: Actor) => {
    const wanted = isFirst ? undefined : chosen.variants?.find((each) => each.title.endsWith("img2img"))?.title;
    const variant = variantOf(chosen, wanted, null);
    const schema = schemaOf(chosen, variant);
    const payload = schema
      ? startPayload(schema, (variant?.values ?? {}) as Payload, !isFirst)
      : ((chosen.example ?? {}) as Payload);
    onChange({
      workflow: `actor:${chosen.name}`,
      effect: null,
      values: {},
      payload,
      stored: null,
      name: named(chosen.title),
    });
  };
  return (
    <TemplateContext value={TEMPLATES}>
      <SurroundingsContext value={{ isFirst, takesParent: actor !== undefined, known }}>
        <div className="grid gap-4">
          <StepHead
            {...head}
            name={step.name}
            stepKey={step.key}
            index={index}
            count={names.length}
            error={problems.name ?? problems.slug}
            onName={(name) => onChange({ name })}
          />
          <WorkflowPicker
            step={step}
            workflows={workflows}
            actors={actors}
            error={
              problems.workflow ?? problems.effect ?? problems.needs_parent_image_path ?? problems.needs_run_prompt
            }
            onWorkflow={(chosen) =>
              onChange({
                workflow: chosen.workflow,
                effect: chosen.effect,
                values: {},
                payload: null,
                stored: null,
                name: named(chosen.name),
              })
            }
            onActor={takeActor}
          />
          {info && <WorkflowFields step={step} info={info} isFirst={isFirst} problems={problems} onChange={onChange} />}
          {actor && (
            <Suspense fallback={<Skeleton className="h-24" />}>
              <ActorFields step={step} actor={actor} isFirst={isFirst} problems={problems} onChange={onChange} />
            </Suspense>
          )}
          {index < names.length - 1 && <StepGates step={step} problems={problems} onChange={onChange} />}
        </div>
      </SurroundingsContext>
    </TemplateContext>
  );
}
