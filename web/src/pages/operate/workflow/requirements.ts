// Reads and writes the requirements of a workflow as texts. Pure.
import { ApiError } from "@/api/problems";
import type { WorkflowDiff } from "@/parts/workflow/diff";

/** The names in a text with one name per line, each once. */
export function namesIn(text: string): string[] {
  return [
    ...new Set(
      text
        .split("\n")
        .map((line) => line.trim())
        .filter((line) => line !== ""),
    ),
  ];
}

/** The shown text of a list: the typed text while it still means the list. */
export function shownText(typed: string, names: readonly string[]): string {
  const read = namesIn(typed);
  return read.length === names.length && read.every((name, place) => name === names[place]) ? typed : names.join("\n");
}

export function isHash(text: string): boolean {
  return /^[0-9a-f]{64}$/i.test(text);
}

/** The reason why the API refused a list, or one of its lines. */
export function reasonBelow(error: unknown, field: string): string | undefined {
  if (!(error instanceof ApiError)) return undefined;
  return error.problem.errors?.find(
    (each) => each.field === field || each.field.startsWith(`${field}.`) || each.field.startsWith(`${field}[`),
  )?.reason;
}

/**
 * Whether changes may change the requirements: the server reads node classes and models from the graph, without those
 * that a property fills in.
 */
export function changesRequirements({ nodes, properties, settings }: WorkflowDiff): boolean {
  const lists = [nodes.added, nodes.removed, nodes.changed, properties.added, properties.removed, properties.changed];
  return lists.some((each) => each.length > 0) || settings.some((each) => each.name === "requirements");
}
