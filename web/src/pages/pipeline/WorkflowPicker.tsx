import { Field, Select } from "@/design";
import type { Actor } from "@/parts/actors";
import { priceText } from "@/parts/price";
import { editorTexts } from "@/texts/pipelines";
import { isActor, type StepDraft, type StepWorkflow, workflowOf } from "./draft";

interface Props {
  step: StepDraft;
  workflows: readonly StepWorkflow[];
  actors: readonly Actor[];
  error?: string;
  onWorkflow: (workflow: StepWorkflow) => void;
  onActor: (actor: Actor) => void;
}

const NONE = "none";

/** A workflow, listed with the effect that sets its price, or an actor. */
export function WorkflowPicker({ step, workflows, actors, error, onWorkflow, onActor }: Props) {
  const found = isActor(step.workflow) ? null : workflowOf(step, workflows);
  // An actor may use a queue of its own: `actor:NAME:QUEUE`.
  const value =
    step.workflow === ""
      ? NONE
      : isActor(step.workflow)
        ? step.workflow
        : found
          ? `effect:${found.effect}`
          : `gone:${step.workflow}`;
  const choices = [
    ...(step.workflow === "" ? [{ value: NONE, label: editorTexts.chooseWorkflow }] : []),
    ...workflows
      .filter((each) => each.is_available || each === found)
      .map((each) => ({ value: `effect:${each.effect}`, label: workflowLabel(each) })),
    ...actors
      .filter((each) => each.makes_images)
      .map((each) => ({ value: `actor:${each.name}`, label: `${each.title} · ${editorTexts.actors}` })),
  ];
  if (!choices.some((each) => each.value === value)) choices.push({ value, label: editorTexts.gone(step.workflow) });
  const choose = (chosen: string) => {
    const workflow = workflows.find((each) => `effect:${each.effect}` === chosen);
    const actor = actors.find((each) => `actor:${each.name}` === chosen);
    if (workflow) onWorkflow(workflow);
    else if (actor) onActor(actor);
  };
  return (
    <Field label={editorTexts.workflow} error={error} hint={found?.description || undefined}>
      <Select value={value} choices={choices} onChange={choose} />
    </Field>
  );
}

function workflowLabel(workflow: StepWorkflow): string {
  return [workflow.name, priceText(workflow), ...(workflow.needs_image ? [editorTexts.needsImage] : [])].join(" · ");
}
