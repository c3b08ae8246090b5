// Positions of the candidates of a run. Pure. Every base is a small tree from left to right, one column per step. The
// trees are laid out in bands, so a large run fills a screen instead of a strip.
import type { Schemas } from "@/api/types";

export type TreeNode = Schemas["TreeNode"];

export const NODE_WIDTH = 120;
export const NODE_HEIGHT = 80;
export const COLUMN = 176;
export const ROW = 96;
/** Space above a band for the names of the steps. */
export const HEAD = 48;
const TREE_GAP = 24;
const BAND_GAP = 72;
/** Width by height of the whole drawing: the shape of a desktop window. */
const WANTED_RATIO = 1.5;
// Maximum number shown; more would be unreadable.
const MAX_GHOSTS = 6;

export interface Placed {
  /** null for a candidate that is being made. */
  node: TreeNode | null;
  /** Centre of the node. */
  x: number;
  y: number;
  position: number;
  /** Index of the parent in the same list; -1 for a base. */
  parent: number;
}

export interface Layout {
  placed: Placed[];
  /** Index in the list, by id of the candidate. */
  index: Map<string, number>;
  children: number[][];
  width: number;
  height: number;
  /** Left edges of the bands. */
  bands: number[];
  steps: number;
}

/** Nodes come in the order of creation: a parent before its children. */
export function layOut(nodes: readonly TreeNode[], steps: number, basesInFlight = 0, ratio = WANTED_RATIO): Layout {
  const { placed, index, children, bases } = connect(nodes, basesInFlight);
  const heights = bases.map((base) => stack(placed, children, base));
  const total = heights.reduce((sum, height) => sum + height + TREE_GAP, 0);
  const bandWidth = steps * COLUMN;
  const count = bandCount(total, bandWidth, bases.length, ratio);
  const tops = new Array<number>(count).fill(HEAD);
  bases.forEach((base, place) => {
    const band = place % count;
    move(placed, children, base, band * (bandWidth + BAND_GAP), tops[band] ?? 0);
    tops[band] = (tops[band] ?? 0) + (heights[place] ?? 0) + TREE_GAP;
  });
  return {
    placed,
    index,
    children,
    width: count * bandWidth + (count - 1) * BAND_GAP,
    height: Math.max(HEAD + ROW, ...tops),
    bands: Array.from({ length: count }, (_, band) => band * (bandWidth + BAND_GAP)),
    steps,
  };
}

/** The number is a power of two, so trees seldom change their places while a run grows. */
export function bandCount(totalHeight: number, bandWidth: number, bases: number, ratio = WANTED_RATIO): number {
  const wanted = Math.sqrt((ratio * totalHeight) / Math.max(bandWidth, 1));
  const rounded = 2 ** Math.max(0, Math.round(Math.log2(Math.max(wanted, 1))));
  return Math.max(1, Math.min(rounded, bases));
}

function connect(nodes: readonly TreeNode[], basesInFlight: number) {
  const placed: Placed[] = [];
  const index = new Map<string, number>();
  const children: number[][] = [];
  const bases: number[] = [];
  const add = (node: TreeNode | null, position: number, parent: number) => {
    const place = placed.push({ node, x: 0, y: 0, position, parent }) - 1;
    children.push([]);
    if (parent >= 0) children[parent]?.push(place);
    else bases.push(place);
    return place;
  };
  for (const node of nodes) {
    const parent = node.parent_id ? (index.get(node.parent_id) ?? -1) : -1;
    index.set(node.id, add(node, node.position, parent));
  }
  // A candidate that is being made takes its future place.
  for (const node of nodes) {
    const parent = index.get(node.id) ?? -1;
    for (let ghost = 0; ghost < Math.min(node.in_flight, MAX_GHOSTS); ghost += 1) add(null, node.position + 1, parent);
  }
  for (let ghost = 0; ghost < Math.min(basesInFlight, MAX_GHOSTS); ghost += 1) add(null, 1, -1);
  return { placed, index, children, bases };
}

/** Places one tree below the line 0 and returns its height: leaves one below the other, parents beside their middle. */
function stack(placed: Placed[], children: readonly number[][], base: number): number {
  let rows = 0;
  for (const place of afterChildren(children, base)) {
    const own = children[place] ?? [];
    const node = placed[place];
    if (!node) continue;
    if (own.length === 0) {
      node.y = rows * ROW + ROW / 2;
      rows += 1;
    } else {
      node.y = ((placed[own[0] ?? 0]?.y ?? 0) + (placed[own.at(-1) ?? 0]?.y ?? 0)) / 2;
    }
  }
  return rows * ROW;
}

function move(placed: Placed[], children: readonly number[][], base: number, left: number, top: number): void {
  for (const place of afterChildren(children, base)) {
    const node = placed[place];
    if (!node) continue;
    node.x = left + (node.position - 1) * COLUMN + NODE_WIDTH / 2;
    node.y += top;
  }
}

/** Each node after all its descendants, without recursion because a tree may be deep. */
function afterChildren(children: readonly number[][], base: number): number[] {
  const before: number[] = [];
  const waiting = [base];
  while (waiting.length > 0) {
    const place = waiting.pop() ?? 0;
    before.push(place);
    for (const child of children[place] ?? []) waiting.push(child);
  }
  return before.reverse();
}
