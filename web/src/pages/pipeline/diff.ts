// Compares two versions of a pipeline. Pure.
import type { Schemas } from "@/api/types";
import type { Json } from "@/parts/form/schema";

type Step = Schemas["Step"];

export interface FieldChange {
  /** Path of the value: `max_children`, `values.strength`, `payload.params.seed`. */
  field: string;
  before: Json | undefined;
  after: Json | undefined;
}

export type StepChange =
  | { is: "added"; name: string; position: number }
  | { is: "removed"; name: string; position: number }
  | { is: "changed"; name: string; position: number; movedFrom: number | null; fields: FieldChange[] };

// The names are in the order of the editor.
const FIELDS = [
  "name",
  "workflow",
  "effect_id",
  "needs_run_prompt",
  "needs_parent_image_path",
  "needs_run_variables",
  "max_children",
  "top_k",
  "requires_approval",
] as const;

/** Changes per step: current steps in their order, then removed steps. Unchanged steps are left out. */
export function changesBetween(before: readonly Step[], after: readonly Step[]): StepChange[] {
  const earlier = matched(before, after);
  const order = new Map(
    [...before].filter((step) => [...earlier.values()].includes(step)).map((step, index) => [step, index]),
  );
  const changes: StepChange[] = [];
  let place = 0;
  for (const step of after) {
    const was = earlier.get(step);
    if (was === undefined) {
      changes.push({ is: "added", name: step.name, position: step.position });
      continue;
    }
    // A step has not moved if it only slid because another step was inserted before it.
    const movedFrom = order.get(was) === place ? null : was.position;
    place += 1;
    const fields = fieldChanges(was, step);
    if (fields.length > 0 || movedFrom !== null)
      changes.push({ is: "changed", name: step.name, position: step.position, movedFrom, fields });
  }
  const kept = new Set(earlier.values());
  for (const step of before)
    if (!kept.has(step)) changes.push({ is: "removed", name: step.name, position: step.position });
  return changes;
}

/**
 * Maps each new step to its old step: the one with the same slug, otherwise the one with the same place and workflow.
 */
function matched(before: readonly Step[], after: readonly Step[]): Map<Step, Step> {
  const found = new Map<Step, Step>();
  for (const step of after) {
    const same = before.find((each) => each.slug === step.slug);
    if (same) found.set(step, same);
  }
  const taken = new Set(found.values());
  for (const step of after) {
    if (found.has(step)) continue;
    const same = before.find(
      (each) => !taken.has(each) && each.position === step.position && each.workflow === step.workflow,
    );
    if (same === undefined) continue;
    found.set(step, same);
    taken.add(same);
  }
  return found;
}

function fieldChanges(before: Step, after: Step): FieldChange[] {
  const plain = FIELDS.filter((field) => (before[field] ?? null) !== (after[field] ?? null)).map(
    (field): FieldChange => ({ field, before: before[field] ?? null, after: after[field] ?? null }),
  );
  return [
    ...plain,
    ...valueChanges("values", before.values as Json, after.values as Json),
    ...valueChanges("payload", (before.payload ?? {}) as Json, (after.payload ?? {}) as Json),
  ];
}

function valueChanges(root: string, before: Json, after: Json): FieldChange[] {
  const [was, is] = [flattened(root, before), flattened(root, after)];
  const names = [...new Set([...was.keys(), ...is.keys()])];
  return names
    .filter((name) => JSON.stringify(was.get(name)) !== JSON.stringify(is.get(name)))
    .map((field) => ({ field, before: was.get(field), after: is.get(field) }));
}

/** Every value of a document by its path. Lists are values. */
function flattened(path: string, value: Json, found = new Map<string, Json>()): Map<string, Json> {
  if (typeof value === "object" && value !== null && !Array.isArray(value))
    for (const [name, member] of Object.entries(value)) flattened(`${path}.${name}`, member, found);
  else found.set(path, value);
  return found;
}

export interface Piece {
  text: string;
  is: "same" | "removed" | "added";
}

// Longer texts are shown whole, because the comparison of each word with each word takes long.
const MAX_WORDS = 400;

/** Compares two texts word by word. */
export function wordDiff(before: string, after: string): Piece[] {
  const [one, other] = [words(before), words(after)];
  if (one.length > MAX_WORDS || other.length > MAX_WORDS)
    return [
      { text: before, is: "removed" },
      { text: after, is: "added" },
    ];
  const longest = Array.from({ length: one.length + 1 }, () => new Array<number>(other.length + 1).fill(0));
  for (let a = one.length - 1; a >= 0; a -= 1) {
    for (let b = other.length - 1; b >= 0; b -= 1) {
      longest[a]![b] =
        one[a] === other[b] ? longest[a + 1]![b + 1]! + 1 : Math.max(longest[a + 1]![b]!, longest[a]![b + 1]!);
    }
  }
  const pieces: Piece[] = [];
  const add = (text: string, is: Piece["is"]) => {
    const last = pieces[pieces.length - 1];
    if (last?.is === is) last.text += text;
    else pieces.push({ text, is });
  };
  let [a, b] = [0, 0];
  while (a < one.length || b < other.length) {
    if (a < one.length && b < other.length && one[a] === other[b]) {
      add(one[a]!, "same");
      [a, b] = [a + 1, b + 1];
    } else if (a < one.length && (b >= other.length || longest[a + 1]![b]! >= longest[a]![b + 1]!)) {
      add(one[a]!, "removed");
      a += 1;
    } else {
      add(other[b]!, "added");
      b += 1;
    }
  }
  return pieces;
}

function words(text: string): string[] {
  return text.match(/\{\{[^{}]*\}\}|\s+|[^\s{}]+|[{}]/g) ?? [];
}
