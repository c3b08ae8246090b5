// A workflow in the editor: the content of a version, and the changes of a user. Pure.
import type { Schemas } from "@/api/types";
import { isFileType } from "@/parts/media";
import { ExactNumber, same } from "./exact";

export type Property = Schemas["Property"];
export type PropertyType = Schemas["PropertyType"];
export type GraphInput = Schemas["GraphInput"];
export type GraphOutput = Schemas["GraphOutput"];
export type ApiGraph = Record<string, unknown>;

const FIELDS = [
  "name",
  "description",
  "graph",
  "properties",
  "output_node_id",
  "output_extension",
  "output_mime_type",
  "keep_metadata",
  "run_limit_seconds",
  "lease_seconds",
  "max_attempts",
  "refund_on_cancel",
  "requirements",
] as const;
export const DRAFT_FIELDS: readonly (keyof Draft)[] = FIELDS;

export type Draft = Pick<Schemas["WorkflowDetail"], Exclude<(typeof FIELDS)[number], "graph">> & {
  graph: ApiGraph | null;
};

/** The editable part of a workflow or of one of its versions. */
export function draftOf(detail: Omit<Draft, "graph"> & { graph?: ApiGraph | null }): Draft {
  return Object.fromEntries(FIELDS.map((name) => [name, detail[name] ?? null])) as unknown as Draft;
}

/**
 * The user's changes of `base`, on top of a version that another user saved. If both changed a field, the user's own
 * value wins.
 */
export function rebased(base: Draft, mine: Draft, theirs: Draft): Draft {
  const changed = FIELDS.filter((name) => !same(base[name] ?? null, mine[name] ?? null));
  return { ...theirs, ...Object.fromEntries(changed.map((name) => [name, mine[name]])) };
}

export const PRIMARY_PLACEHOLDER = "__INPUT_PATH__";

/** The inputs of the graph that contain a placeholder. */
export function placesOf(graph: ApiGraph | null, placeholder: string): { node: string; input: string }[] {
  return Object.entries(graph ?? {}).flatMap(([node, value]) =>
    Object.entries(inputsOf(value)).flatMap(([input, each]) => (contains(each, placeholder) ? [{ node, input }] : [])),
  );
}

function inputsOf(node: unknown): Record<string, unknown> {
  return ((node as { inputs?: Record<string, unknown> } | null)?.inputs ?? {}) as Record<string, unknown>;
}

function contains(value: unknown, text: string): boolean {
  if (typeof value === "string") return value.includes(text);
  if (value instanceof ExactNumber || typeof value !== "object" || value === null) return false;
  return Object.values(value).some((each) => contains(each, text));
}

/** The properties whose placeholders are in an input. */
export function propertiesIn(draft: Draft, value: unknown): Property[] {
  return draft.properties.filter((each) => contains(value, each.placeholder));
}

/** Keys of the properties in the inputs of each node. */
export function keysByNode(draft: Draft): Map<string, string[]> {
  const keys = new Map<string, string[]>();
  for (const each of draft.properties) {
    for (const { node } of placesOf(draft.graph, each.placeholder)) {
      const found = keys.get(node) ?? [];
      if (!found.includes(each.key)) keys.set(node, [...found, each.key]);
    }
  }
  return keys;
}

/** Makes an input of a node a property of this type: its value becomes the default, and a placeholder replaces it. */
export function withProperty(draft: Draft, input: GraphInput, type: PropertyType): Draft {
  const isPrimary =
    isFileType(type) &&
    !draft.properties.some((each) => each.is_primary_input) &&
    !usesPlaceholder(draft, PRIMARY_PLACEHOLDER);
  const key = freeKey(draft, isPrimary ? "input" : keyOf(input.name));
  const placeholder = isPrimary
    ? PRIMARY_PLACEHOLDER
    : freePlaceholder(draft, isFileType(type) ? `__${key.toUpperCase()}__` : `{{${key}}}`);
  const added: Property = {
    key,
    type,
    label: input.label || titleOf(key),
    description: "",
    placeholder,
    default: isFileType(type) ? null : input.value,
    required: isFileType(type),
    user_configurable: true,
    is_primary_input: isPrimary,
    limits: limitsOf(input, type),
  };
  return {
    ...draft,
    properties: [...draft.properties, added],
    graph: withInput(draft.graph, input.node_id, input.name, placeholder),
  };
}

/** The declaration of the engines. For another type than the likeliest one, the value of the graph decides. */
function limitsOf(input: GraphInput, type: PropertyType): Property["limits"] {
  const isDeclared = type === input.types[0] && (type !== "choice" || !!input.limits.choices);
  if (isDeclared && (type === "number" || type === "choice")) return input.limits;
  return {
    integer: type === "number" && isWhole(input.value),
    ...(type === "choice" ? { choices: [input.value] } : {}),
  };
}

function isWhole(value: unknown): boolean {
  return value instanceof ExactNumber || (typeof value === "number" && Number.isInteger(value));
}

function withInput(graph: ApiGraph | null, nodeId: string, name: string, value: unknown): ApiGraph | null {
  if (graph === null) return null;
  const node = graph[nodeId] as Record<string, unknown>;
  return { ...graph, [nodeId]: { ...node, inputs: { ...inputsOf(node), [name]: value } } };
}

/** Removes a property: its default replaces its placeholder. */
export function withoutProperty(draft: Draft, index: number): Draft {
  const gone = draft.properties[index];
  if (gone === undefined) return draft;
  const value = gone.default ?? "";
  const graph =
    draft.graph &&
    Object.fromEntries(
      Object.entries(draft.graph).map(([id, node]) => [
        id,
        { ...(node as object), inputs: replaced(inputsOf(node), gone.placeholder, value) },
      ]),
    );
  return { ...draft, graph, properties: draft.properties.filter((_, place) => place !== index) };
}

function replaced(value: unknown, placeholder: string, by: unknown): unknown {
  if (value === placeholder) return by;
  if (typeof value === "string") return value.replaceAll(placeholder, String(by));
  if (value instanceof ExactNumber || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((each) => replaced(each, placeholder, by));
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, replaced(each, placeholder, by)]));
}

export function changedProperty(draft: Draft, index: number, change: Partial<Property>): Draft {
  return {
    ...draft,
    properties: draft.properties.map((each, place) => (place === index ? { ...each, ...change } : each)),
  };
}

/** The new type keeps the limits that fit it. */
export function retyped(property: Property, type: PropertyType): Property {
  const value = property.default;
  if (isFileType(type)) return { ...property, type, default: null, limits: { integer: false } };
  const plain = isFileType(property.type) ? null : value;
  const limits = {
    integer: type === "number" && isWhole(plain),
    ...(type === "choice" ? { choices: plain == null ? [] : [plain] } : {}),
  };
  return { ...property, type, is_primary_input: false, default: plain, limits };
}

export function movedProperty(draft: Draft, index: number, by: -1 | 1): Draft {
  const properties = [...draft.properties];
  const [moved] = properties.splice(index, 1);
  if (moved === undefined) return draft;
  properties.splice(Math.max(0, index + by), 0, moved);
  return { ...draft, properties };
}

/** No node declares the type of its file, so the bytes of each result decide. */
export const UNKNOWN_FILE = { extension: "bin", mime_type: "application/octet-stream" };

/**
 * The node whose file is the result; null: every file that the graph saves. `outputs`: undefined until they are known.
 */
export function withOutput(draft: Draft, nodeId: string | null, outputs: readonly GraphOutput[] | undefined): Draft {
  const known =
    outputs?.find((each) => each.node_id === nodeId) ?? (outputs && nodeId !== null ? UNKNOWN_FILE : undefined);
  return {
    ...draft,
    output_node_id: nodeId,
    ...(known ? { output_extension: known.extension, output_mime_type: known.mime_type } : {}),
  };
}

/** Replaces the graph with a new export. Properties whose inputs still exist keep the settings of users. */
export function withGraph(draft: Draft, proposal: Schemas["WorkflowProposal"]): Draft {
  let graph: ApiGraph = proposal.graph;
  const kept: Property[] = [];
  const taken = new Set<string>();
  for (const each of draft.properties) {
    const places = placesOf(draft.graph, each.placeholder).filter(
      ({ node, input }) => input in inputsOf(graph[node]) && sameClass(draft.graph?.[node], graph[node]),
    );
    if (places.length === 0) continue;
    kept.push(each);
    for (const { node, input } of places) {
      taken.add(`${node} ${input}`);
      graph = withInput(graph, node, input, inputsOf(draft.graph?.[node])[input])!;
    }
  }
  const added = proposal.properties.filter((each) => {
    const places = placesOf(proposal.graph, each.placeholder);
    return (
      places.every(({ node, input }) => !taken.has(`${node} ${input}`)) &&
      !kept.some((other) => other.key === each.key || other.placeholder === each.placeholder)
    );
  });
  // A proposed property that is not added leaves its original value in the graph.
  for (const each of proposal.properties) {
    if (added.includes(each)) continue;
    for (const { node, input } of placesOf(graph, each.placeholder)) {
      const original = proposal.inputs.find((value) => value.node_id === node && value.name === input);
      if (!taken.has(`${node} ${input}`) && original) graph = withInput(graph, node, input, original.value)!;
    }
  }
  const next = { ...draft, graph, properties: [...kept, ...added] };
  const isThere = draft.output_node_id === null || draft.output_node_id === undefined || draft.output_node_id in graph;
  return isThere ? next : withOutput(next, proposal.outputs[0]?.node_id ?? null, proposal.outputs);
}

function sameClass(one: unknown, other: unknown): boolean {
  return (
    (one as { class_type?: string } | undefined)?.class_type ===
    (other as { class_type?: string } | undefined)?.class_type
  );
}

function usesPlaceholder(draft: Draft, placeholder: string): boolean {
  return (
    placesOf(draft.graph, placeholder).length > 0 || draft.properties.some((each) => each.placeholder === placeholder)
  );
}

function freePlaceholder(draft: Draft, wanted: string): string {
  for (let number = 1; ; number += 1) {
    const candidate = number === 1 ? wanted : wanted.replace(/(__|\}\})$/, `_${number}$1`);
    if (!usesPlaceholder(draft, candidate)) return candidate;
  }
}

function freeKey(draft: Draft, wanted: string): string {
  for (let number = 1; ; number += 1) {
    const candidate = number === 1 ? wanted : `${wanted}_${number}`;
    if (!draft.properties.some((each) => each.key === candidate)) return candidate;
  }
}

/** A key for the API: letters, digits and underscores. */
export function keyOf(name: string): string {
  const clean = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .slice(0, 50);
  return /^[a-z]/.test(clean) ? clean : `value${clean ? `_${clean}` : ""}`;
}

function titleOf(key: string): string {
  const words = key.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
