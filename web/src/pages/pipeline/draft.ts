// A pipeline in the editor, and its form for the API. Pure.
import type { Schemas } from "@/api/types";
import type { Json } from "@/parts/form/schema";
import { initialOf, resolved, type Schema } from "@/parts/form/schema";
import type { PlainValue } from "@/parts/form/values";
import { namesIn, PARENT, PARENT_FILE, PROMPT, placeholder, SEED, union, variablesOf } from "./variables";

export type Step = Schemas["Step"];
export type NewStep = Schemas["NewStep"];
export type StepWorkflow = Schemas["StepWorkflow"];
export type Payload = { [name: string]: Json };

export interface StepDraft {
  /** Identity of the step in this form. */
  key: string;
  name: string;
  /** Slug of a saved step. The step keeps its folder when its name changes. */
  slug: string | null;
  /** Empty until the user chooses one. An actor is `actor:NAME`. */
  workflow: string;
  effect: string | null;
  /** Values that differ from the workflow's defaults, by key of a property. */
  values: Record<string, PlainValue>;
  payload: Payload | null;
  /** Properties that a run may set by variables with their names. */
  takesVariables: boolean;
  max_children: number;
  top_k: number | null;
  requires_approval: boolean;
  /** The saved step, for a workflow that is no longer on offer. */
  stored: { prompt: boolean; parent: boolean; variables: boolean } | null;
}

export interface PipelineDraft {
  name: string;
  description: string;
  steps: StepDraft[];
}

export const DEFAULT_CHILDREN = 3;
export const MAX_STEPS = 50;

export function isActor(workflow: string): boolean {
  return workflow.startsWith("actor:");
}

export function emptyStep(key: string, name: string): StepDraft {
  return {
    key,
    name,
    slug: null,
    workflow: "",
    effect: null,
    values: {},
    payload: null,
    takesVariables: false,
    max_children: DEFAULT_CHILDREN,
    top_k: null,
    requires_approval: false,
    stored: null,
  };
}

/** The workflow of a step, found by the effect that sets its price, otherwise by its name. */
export function workflowOf(
  step: Pick<StepDraft, "workflow" | "effect">,
  workflows: readonly StepWorkflow[],
): StepWorkflow | null {
  return (
    workflows.find((each) => each.effect === step.effect && each.workflow === step.workflow) ??
    workflows.find((each) => each.workflow === step.workflow) ??
    null
  );
}

export function draftOf(
  step: Step | Schemas["TemplateStep"],
  key: string,
  workflows: readonly StepWorkflow[],
): StepDraft {
  const saved = "slug" in step ? step : null;
  const effect = saved
    ? (workflows.find((each) => each.effect_id === saved.effect_id)?.effect ?? null)
    : ((step as Schemas["TemplateStep"]).effect ?? null);
  const info = workflowOf({ workflow: step.workflow, effect }, workflows);
  const draft: StepDraft = {
    ...emptyStep(key, step.name),
    slug: saved?.slug ?? null,
    workflow: step.workflow,
    effect,
    values: { ...(step.values as Record<string, PlainValue>) },
    payload: (step.payload as Payload | null | undefined) ?? null,
    max_children: step.max_children,
    top_k: step.top_k ?? null,
    requires_approval: step.requires_approval,
    stored: {
      prompt: step.needs_run_prompt,
      parent: step.needs_parent_image_path,
      variables: step.needs_run_variables,
    },
  };
  draft.takesVariables = step.needs_run_variables && variablesOf(namesOf(draft, info)).length === 0;
  const prompt = info?.prompt_property;
  if (prompt == null) return draft;
  if (step.needs_run_prompt) {
    // The run's prompt fills this property, so a value without a placeholder would have no effect.
    if (namesIn(draft.values[prompt]).size === 0) delete draft.values[prompt];
  } else if (draft.values[prompt] === undefined) {
    draft.values[prompt] = "";
  }
  return draft;
}

/** The text of the prompt property. Default: the run's prompt. */
export function valueAt(step: StepDraft, info: StepWorkflow, key: string): PlainValue | null {
  const set = step.values[key];
  if (set !== undefined) return set;
  if (key === info.prompt_property) return placeholder(PROMPT);
  return info.properties.find((each) => each.key === key)?.default ?? null;
}

/** Every name that the step uses, in its texts and in the graph of its workflow. */
export function namesOf(step: StepDraft, info: StepWorkflow | null): Set<string> {
  if (isActor(step.workflow)) return namesIn(step.payload ?? {});
  const own = union(Object.values(step.values).map((value) => namesIn(value)));
  const implied = info?.prompt_property != null && step.values[info.prompt_property] === undefined ? [PROMPT] : [];
  return union([own, new Set(info?.placeholders ?? []), new Set(implied)]);
}

/** Converts the draft for the API. The needed inputs of a run follow from the used names. */
export function newStepOf(step: StepDraft, index: number, info: StepWorkflow | null): NewStep {
  const names = namesOf(step, info);
  const isOfActor = isActor(step.workflow);
  const isUnknown = !isOfActor && info === null && step.stored !== null;
  const usesVariables = variablesOf(names).length > 0 || step.takesVariables;
  return {
    name: step.name.trim(),
    slug: step.slug,
    workflow: step.workflow,
    effect: isOfActor ? null : step.effect,
    payload: isOfActor ? (step.payload ?? {}) : null,
    values: isOfActor ? {} : sentValues(step, info),
    needs_run_prompt: names.has(PROMPT) || (isUnknown && step.stored!.prompt),
    needs_parent_image_path: isOfActor
      ? names.has(PARENT) || names.has(PARENT_FILE)
      : isUnknown
        ? step.stored!.parent
        : index > 0 && info?.takes_image === true,
    needs_run_variables: usesVariables || (isUnknown && step.stored!.variables),
    max_children: step.max_children,
    top_k: step.top_k,
    requires_approval: step.requires_approval,
  };
}

function sentValues(step: StepDraft, info: StepWorkflow | null): Record<string, PlainValue> {
  const isSent = ([key, value]: [string, PlainValue]) =>
    value !== "" && !(key === info?.prompt_property && value === placeholder(PROMPT));
  return Object.fromEntries(Object.entries(step.values).filter(isSent));
}

/** No step follows the last one, so its gates are left out. */
export function newStepsOf(draft: PipelineDraft, workflows: readonly StepWorkflow[]): NewStep[] {
  const last = draft.steps.length - 1;
  const gates = (index: number) => (index === last ? { top_k: null, requires_approval: false } : {});
  return draft.steps.map((step, index) => ({
    ...newStepOf(step, index, workflowOf(step, workflows)),
    ...gates(index),
  }));
}

/** Whether a save would change anything. */
export function differs(one: PipelineDraft, other: PipelineDraft, workflows: readonly StepWorkflow[]): boolean {
  const sent = (draft: PipelineDraft) =>
    JSON.stringify([draft.name.trim(), draft.description.trim(), newStepsOf(draft, workflows)]);
  return sent(one) !== sent(other);
}

/** Problems that the page finds before the server does, by step and field. */
export function missingIn(
  draft: PipelineDraft,
  texts: { missingName: string; missingWorkflow: string },
): Record<string, string>[] {
  return draft.steps.map((step) => ({
    ...(step.name.trim() === "" ? { name: texts.missingName } : {}),
    ...(step.workflow === "" ? { workflow: texts.missingWorkflow } : {}),
  }));
}

/** First payload of an actor: the run's prompt, a seed and the parent's image if the actor takes them. */
export function startPayload(schema: Schema, constants: Payload, hasParent: boolean): Payload {
  return { ...fill(initialOf(schema, schema), schema, schema, hasParent), ...constants };
}

function fill(value: Payload, schema: Schema, root: Schema, hasParent: boolean): Payload {
  const filled = { ...value };
  for (const [name, each] of Object.entries(schema.properties ?? {})) {
    const own = resolved(each, root);
    const isImage = own.format === "uri" || /^(image|image_url|input_image|init_image)$/.test(name);
    if (own.properties) filled[name] = fill((filled[name] as Payload | undefined) ?? {}, own, root, hasParent);
    else if (name === PROMPT) filled[name] = placeholder(PROMPT);
    else if (name === SEED) filled[name] = placeholder(SEED);
    else if (hasParent && isImage && own.type === "string") filled[name] = placeholder(PARENT);
  }
  return filled;
}

export function moved<Item>(items: readonly Item[], from: number, to: number): Item[] {
  const rest = items.filter((_, index) => index !== from);
  return [...rest.slice(0, to), items[from]!, ...rest.slice(to)];
}

/** Unused names for steps: "Glow" and "Glow 2". */
export function freshName(base: string, taken: readonly string[]): string {
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? base : `${base} ${number}`;
    if (!taken.includes(name)) return name;
  }
}

/**
 * Reasons of the server per step and field of the step. `steps.2.values.strength` is `values.strength` of the third.
 */
export function problemsByStep(
  errors: readonly { field: string; reason: string }[],
  count: number,
): Record<string, string>[] {
  const found = Array.from({ length: count }, (): Record<string, string> => ({}));
  for (const { field, reason } of errors) {
    const [, place, rest] = /^(?:body\.)?steps\.(\d+)\.?(.*)$/.exec(field) ?? [];
    const of = found[Number(place)];
    if (place !== undefined && of) of[rest!] ??= reason;
  }
  return found;
}
