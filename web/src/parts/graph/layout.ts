// Positions of the nodes of a graph: columns from left to right in the order of work. Pure.
import type { Graph } from "./graph";

export const NODE_WIDTH = 208;
export const NODE_HEIGHT = 66;
const COLUMN = NODE_WIDTH + 72;
const ROW = NODE_HEIGHT + 22;
/** Unconnected parts of a graph are drawn below each other. */
const PART_GAP = 40;
const SINGLES_PER_ROW = 5;
const SWEEPS = 6;
/** A part with more columns is folded into bands below each other, because one line would be unreadable. */
const MAX_COLUMNS = 14;
const WANTED_RATIO = 2.2;

export interface Point {
  x: number;
  y: number;
}

export interface Layout {
  /** The upper left corner of each node. */
  positions: ReadonlyMap<string, Point>;
  width: number;
  height: number;
}

type Neighbours = ReadonlyMap<string, readonly string[]>;

/** Every node has a position and no two overlap, even if links form a cycle. The same graph is always drawn alike. */
export function layoutGraph(graph: Graph): Layout {
  const ids = graph.nodes.map((node) => node.id);
  const edges = graph.edges
    .filter((edge) => edge.source !== edge.target)
    .map((edge): [string, string] => [edge.source, edge.target]);
  const forward = withoutCycles(ids, edges);
  const sources = neighbours(ids, forward, 1, 0);
  const targets = neighbours(ids, forward, 0, 1);
  const columns = columnsOf(ids, sources, targets);
  const positions = new Map<string, Point>();
  let top = 0;
  const singles: string[] = [];
  for (const part of partsOf(ids, sources, targets)) {
    if (part.length === 1) singles.push(part[0]!);
    else top = placePart(part, columns, sources, targets, top, positions) + PART_GAP;
  }
  singles.forEach((id, index) => {
    positions.set(id, { x: (index % SINGLES_PER_ROW) * COLUMN, y: top + Math.floor(index / SINGLES_PER_ROW) * ROW });
  });
  const corners = [...positions.values()];
  return {
    positions,
    width: corners.reduce((most, each) => Math.max(most, each.x + NODE_WIDTH), 0),
    height: corners.reduce((most, each) => Math.max(most, each.y + NODE_HEIGHT), 0),
  };
}

/** The edges without those that close a cycle. Not recursive, because chains may be long. */
function withoutCycles(ids: readonly string[], edges: readonly [string, string][]): [string, string][] {
  const targets = neighbours(ids, edges, 0, 1);
  const state = new Map<string, "open" | "done">();
  const kept: [string, string][] = [];
  for (const start of ids) {
    if (state.has(start)) continue;
    const stack = [{ id: start, next: 0 }];
    state.set(start, "open");
    while (stack.length > 0) {
      const top = stack[stack.length - 1]!;
      const target = targets.get(top.id)![top.next++];
      if (target === undefined) {
        state.set(top.id, "done");
        stack.pop();
      } else if (state.get(target) !== "open") {
        kept.push([top.id, target]);
        if (!state.has(target)) {
          state.set(target, "open");
          stack.push({ id: target, next: 0 });
        }
      }
    }
  }
  return kept;
}

function neighbours(ids: readonly string[], edges: readonly [string, string][], of: 0 | 1, other: 0 | 1): Neighbours {
  const found = new Map<string, string[]>(ids.map((id) => [id, []]));
  for (const edge of edges) found.get(edge[of])!.push(edge[other]);
  return found;
}

/**
 * One column behind the last node that a node needs. A node without needs is right before the first node that needs it.
 */
function columnsOf(ids: readonly string[], sources: Neighbours, targets: Neighbours): Map<string, number> {
  const columns = new Map<string, number>();
  const missing = new Map(ids.map((id) => [id, sources.get(id)!.length]));
  const ready = ids.filter((id) => missing.get(id) === 0);
  for (let index = 0; index < ready.length; index++) {
    const id = ready[index]!;
    columns.set(
      id,
      sources.get(id)!.reduce((most, each) => Math.max(most, columns.get(each)! + 1), 0),
    );
    for (const target of targets.get(id)!) {
      missing.set(target, missing.get(target)! - 1);
      if (missing.get(target) === 0) ready.push(target);
    }
  }
  for (const id of ids) {
    const behind = targets.get(id)!.map((each) => columns.get(each)!);
    if (sources.get(id)!.length === 0 && behind.length > 0) columns.set(id, Math.min(...behind) - 1);
  }
  return columns;
}

/** Connected nodes, by the first node of each part. */
function partsOf(ids: readonly string[], sources: Neighbours, targets: Neighbours): string[][] {
  const seen = new Set<string>();
  const parts: string[][] = [];
  for (const start of ids) {
    if (seen.has(start)) continue;
    seen.add(start);
    const part = [start];
    for (let index = 0; index < part.length; index++) {
      for (const each of [...sources.get(part[index]!)!, ...targets.get(part[index]!)!]) {
        if (!seen.has(each)) {
          seen.add(each);
          part.push(each);
        }
      }
    }
    parts.push(part);
  }
  return parts;
}

/** Draws one part below `top` and returns its lower end. */
function placePart(
  part: readonly string[],
  columns: ReadonlyMap<string, number>,
  sources: Neighbours,
  targets: Neighbours,
  top: number,
  positions: Map<string, Point>,
): number {
  const least = part.reduce((found, id) => Math.min(found, columns.get(id)!), Number.POSITIVE_INFINITY);
  const layers: string[][] = [];
  for (const id of part) {
    const column = columns.get(id)! - least;
    layers[column] ??= [];
    layers[column].push(id);
  }
  const rows = new Map<string, number>();
  for (const layer of layers) layer?.forEach((id, index) => rows.set(id, index - (layer.length - 1) / 2));
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isForward = sweep % 2 === 0;
    for (const layer of isForward ? layers : [...layers].reverse())
      if (layer) settle(layer, isForward ? sources : targets, rows);
  }
  let end = top;
  for (const band of bandsOf(layers, rows)) {
    const ids = band.flatMap((layer) => layer ?? []);
    const first = ids.reduce((found, id) => Math.min(found, rows.get(id)!), Number.POSITIVE_INFINITY);
    const start = end === top ? top : end + PART_GAP;
    band.forEach((layer, column) => {
      for (const id of layer ?? []) {
        const y = start + (rows.get(id)! - first) * ROW;
        positions.set(id, { x: column * COLUMN, y });
        end = Math.max(end, y + NODE_HEIGHT);
      }
    });
  }
  return end;
}

/** The columns of a part, in one band or in several bands that are about as wide as a screen. */
function bandsOf(layers: readonly string[][], rows: ReadonlyMap<string, number>): string[][][] {
  if (layers.length <= MAX_COLUMNS) return [[...layers]];
  const rowsOfPart = [...layers].flatMap((layer) => layer ?? []).map((id) => rows.get(id)!);
  const height =
    (rowsOfPart.reduce((most, each) => Math.max(most, each), Number.NEGATIVE_INFINITY) -
      rowsOfPart.reduce((found, each) => Math.min(found, each), Number.POSITIVE_INFINITY) +
      1) *
    ROW;
  const count = Math.max(1, Math.round(Math.sqrt((layers.length * COLUMN) / height / WANTED_RATIO)));
  const size = Math.ceil(layers.length / count);
  return Array.from({ length: Math.ceil(layers.length / size) }, (_, index) =>
    layers.slice(index * size, (index + 1) * size),
  );
}

/** Moves the nodes of a column beside their neighbours, at least one row apart. */
function settle(layer: string[], beside: Neighbours, rows: Map<string, number>): void {
  const wanted = new Map(
    layer.map((id) => [id, mean(beside.get(id)!.map((each) => rows.get(each)!)) ?? rows.get(id)!]),
  );
  layer.sort((one, other) => wanted.get(one)! - wanted.get(other)!);
  let last = Number.NEGATIVE_INFINITY;
  const placed = layer.map((id) => (last = Math.max(wanted.get(id)!, last + 1)));
  // Nodes that moved down pull the whole column up by half of the distance, so it stays centred.
  const shift = mean(layer.map((id, index) => placed[index]! - wanted.get(id)!)) ?? 0;
  layer.forEach((id, index) => rows.set(id, placed[index]! - shift));
}

function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((total, each) => total + each, 0) / values.length;
}
