// Describes in sentences what a change of a fleet will do. Pure.
import type { Schemas } from "@/api/types";
import { fleetsTexts, fleetTexts } from "@/texts/fleets";

type Fleet = Pick<Schemas["Fleet"], "name" | "is_active" | "desired_workers" | "live_workers">;
const texts = fleetTexts.changes;

/** null for an empty text; undefined for a text that is not a whole number. */
export function wholeNumber(text: string): number | null | undefined {
  const digits = text.trim();
  if (digits === "") return null;
  return /^\d{1,9}$/.test(digits) ? Number(digits) : undefined;
}

export function creationPlan(slug: string, stage: string, workflows: number): string[] {
  return [fleetsTexts.plan.registers(slug, stage, workflows), fleetsTexts.plan.startsNothing];
}

export interface FleetDraft {
  name: string;
  is_active: boolean;
  desired_workers: number | null;
}

/** Only the changed fields, in the form of the API. */
export function changesOf(fleet: Fleet, draft: FleetDraft): Schemas["UpdateFleetRequest"] {
  const changes: Schemas["UpdateFleetRequest"] = {};
  if (draft.name !== fleet.name) changes.name = draft.name;
  if (draft.is_active !== fleet.is_active) changes.is_active = draft.is_active;
  if (draft.desired_workers !== (fleet.desired_workers ?? null)) changes.desired_workers = draft.desired_workers;
  return changes;
}

export function changePlan(fleet: Fleet, draft: FleetDraft): string[] {
  const changes = changesOf(fleet, draft);
  const found: string[] = [];
  if (changes.name) found.push(texts.name(changes.name));
  if (changes.is_active === false) found.push(texts.off(fleet.live_workers));
  if (changes.is_active === true) found.push(texts.on);
  if (changes.desired_workers === null) found.push(texts.noDesired);
  else if (changes.desired_workers !== undefined) found.push(texts.desired(changes.desired_workers));
  return found.length === 0 ? [texts.nothing] : found;
}

type Queue = Pick<Schemas["FleetWorkflow"], "workflow" | "queued" | "delayed">;

export interface WorkflowChange {
  add: string[];
  remove: string[];
}

export function workflowChange(before: readonly string[], after: readonly string[]): WorkflowChange {
  return {
    add: after.filter((slug) => !before.includes(slug)).sort(),
    remove: before.filter((slug) => !after.includes(slug)).sort(),
  };
}

/** `queues`: waiting jobs of each workflow in the stage of the fleet. */
export function workflowPlan({ add: added, remove: removed }: WorkflowChange, queues: readonly Queue[]): string[] {
  const found: string[] = [];
  if (added.length > 0) found.push(texts.added(added.join(", ")));
  if (removed.length > 0) found.push(texts.removed(removed.join(", ")));
  for (const slug of removed) {
    const queue = queues.find((each) => each.workflow === slug);
    const waiting = (queue?.queued ?? 0) + (queue?.delayed ?? 0);
    if (waiting > 0) found.push(texts.removedWaiting(waiting, slug));
  }
  return found.length === 0 ? [texts.nothing] : found;
}
