// Compares two states of a workflow. Pure.

import { type ApiGraph, DRAFT_FIELDS, type Draft, type Property } from "./draft";
import { same } from "./exact";

export interface ValueChange {
  name: string;
  /** undefined: the value did not exist. */
  before: unknown;
  after: unknown;
}

export interface NodeChange {
  id: string;
  title: string;
  classType: string;
  changes: ValueChange[];
}

export interface PropertyChange {
  key: string;
  changes: ValueChange[];
}

export interface WorkflowDiff {
  nodes: { added: NodeChange[]; removed: NodeChange[]; changed: NodeChange[] };
  properties: { added: string[]; removed: string[]; changed: PropertyChange[]; isMoved: boolean };
  settings: ValueChange[];
}

/** Lists the changes that turn `before` into `after`. */
export function diffOf(before: Draft, after: Draft): WorkflowDiff {
  return {
    nodes: nodesDiff(before.graph ?? {}, after.graph ?? {}),
    properties: propertiesDiff(before.properties, after.properties),
    settings: settingsDiff(before, after),
  };
}

export function isEmptyDiff({ nodes, properties, settings }: WorkflowDiff): boolean {
  const lists = [
    nodes.added,
    nodes.removed,
    nodes.changed,
    properties.added,
    properties.removed,
    properties.changed,
    settings,
  ];
  return lists.every((each) => each.length === 0) && !properties.isMoved;
}

/** Marks per node, for a drawing of the newer graph. */
export function changedNodes({ nodes }: WorkflowDiff): Map<string, "added" | "changed"> {
  return new Map([
    ...nodes.added.map((each) => [each.id, "added"] as const),
    ...nodes.changed.map((each) => [each.id, "changed"] as const),
  ]);
}

function nodesDiff(before: ApiGraph, after: ApiGraph): WorkflowDiff["nodes"] {
  const added = Object.keys(after).filter((id) => !(id in before));
  const removed = Object.keys(before).filter((id) => !(id in after));
  const changed = Object.keys(after).flatMap((id) => {
    if (!(id in before)) return [];
    const changes = nodeChanges(before[id], after[id]);
    return changes.length === 0 ? [] : [{ ...headOf(id, after[id]), changes }];
  });
  return {
    added: added.map((id) => ({ ...headOf(id, after[id]), changes: [] })),
    removed: removed.map((id) => ({ ...headOf(id, before[id]), changes: [] })),
    changed,
  };
}

interface AnyNode {
  class_type?: unknown;
  inputs?: Record<string, unknown>;
  _meta?: { title?: unknown };
}

function headOf(id: string, node: unknown): { id: string; title: string; classType: string } {
  const { class_type, _meta } = (node ?? {}) as AnyNode;
  const classType = typeof class_type === "string" ? class_type : "";
  const title = typeof _meta?.title === "string" && _meta.title.trim() ? _meta.title.trim() : classType;
  return { id, title, classType };
}

function nodeChanges(before: unknown, after: unknown): ValueChange[] {
  const [old, now] = [before as AnyNode, after as AnyNode];
  const named = [
    { name: "class_type", before: old.class_type, after: now.class_type },
    { name: "title", before: old._meta?.title, after: now._meta?.title },
  ];
  return [
    ...named.filter((each) => !same(each.before, each.after)),
    ...membersDiff(old.inputs ?? {}, now.inputs ?? {}),
  ];
}

function membersDiff(before: object, after: object): ValueChange[] {
  const [old, now] = [before as Record<string, unknown>, after as Record<string, unknown>];
  const names = [...new Set([...Object.keys(old), ...Object.keys(now)])];
  return names
    .filter((name) => !same(old[name], now[name]))
    .map((name) => ({ name, before: old[name], after: now[name] }));
}

function propertiesDiff(before: readonly Property[], after: readonly Property[]): WorkflowDiff["properties"] {
  const old = new Map(before.map((each) => [each.key, each]));
  const now = new Map(after.map((each) => [each.key, each]));
  const changed = after.flatMap((each) => {
    const earlier = old.get(each.key);
    const changes = earlier ? membersDiff(flat(earlier), flat(each)) : [];
    return changes.length === 0 ? [] : [{ key: each.key, changes }];
  });
  const keptBefore = before.filter((each) => now.has(each.key)).map((each) => each.key);
  const keptAfter = after.filter((each) => old.has(each.key)).map((each) => each.key);
  return {
    added: after.filter((each) => !old.has(each.key)).map((each) => each.key),
    removed: before.filter((each) => !now.has(each.key)).map((each) => each.key),
    changed,
    isMoved: !same(keptBefore, keptAfter),
  };
}

/** Each limit as a member of its own. A missing limit is left out. */
function flat({ limits, ...rest }: Property): Record<string, unknown> {
  const set = Object.entries(limits ?? {}).filter(
    ([, value]) => value !== null && value !== undefined && value !== false,
  );
  const plain = Object.entries(rest).map(([name, value]) => [name, value ?? null] as const);
  return Object.fromEntries([...plain, ...set.map(([name, value]) => [`limits.${name}`, value] as const)]);
}

function settingsDiff(before: Draft, after: Draft): ValueChange[] {
  const names = DRAFT_FIELDS.filter((name) => name !== "graph" && name !== "properties");
  return names
    .filter((name) => !same(before[name] ?? null, after[name] ?? null))
    .map((name) => ({ name, before: before[name] ?? null, after: after[name] ?? null }));
}
