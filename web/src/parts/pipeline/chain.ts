// Number of candidates per step of a pipeline, and a drawing of it. Pure, with the same rules as the server's preview.
import type { Schemas } from "@/api/types";

export type Strategy = Schemas["Strategy"];

export interface Link {
  max_children: number;
  top_k?: number | null;
}

/** Number of candidates per step, if the run has one job at a time and no job fails. */
export function expectedCounts(chain: readonly Link[], leaves: number, strategy: Strategy): number[] {
  if (chain.length === 0) return [];
  const parents = chain.slice(0, -1);
  const perBase = parents.reduce((product, link) => product * link.max_children, 1);
  const isWide = strategy === "breadth_first";
  const counts = [isWide ? leaves : Math.ceil(leaves / perBase)];
  for (const link of parents) {
    const before = counts[counts.length - 1]!;
    // A depth-first run does not wait for the best candidates.
    const chosen = isWide && link.top_k != null ? Math.min(before, link.top_k) : before;
    counts.push(chosen * link.max_children);
  }
  return counts;
}

/** The counts for one base: 1, then multiplied by each step. */
export function countsPerBase(chain: readonly Link[]): number[] {
  const counts: number[] = [];
  for (const index of chain.keys()) counts.push(index === 0 ? 1 : counts[index - 1]! * chain[index - 1]!.max_children);
  return counts;
}

export interface Dot {
  x: number;
  y: number;
  /** No candidate of the next step comes from this dot. */
  isLast: boolean;
}

export interface Drawing {
  width: number;
  height: number;
  columns: Dot[][];
  lines: { from: Dot; to: Dot }[];
}

export const MAX_DOTS = 9;

/** Dots in columns, with a line from each dot to its children. Large columns show only their first dots. */
export function drawChain(counts: readonly number[], columnWidth: number, height: number): Drawing {
  const columns = counts.map((count, index) => column(Math.min(count, MAX_DOTS), columnWidth * (index + 0.5), height));
  const lines = columns.slice(1).flatMap((dots, index) => {
    const parents = columns[index]!;
    return dots.map((to, place) => {
      const from = parents[Math.floor((place * parents.length) / dots.length)]!;
      from.isLast = false;
      return { from, to };
    });
  });
  return { width: columnWidth * Math.max(1, counts.length), height, columns, lines };
}

function column(count: number, x: number, height: number): Dot[] {
  const gap = height / Math.max(count, 1);
  return Array.from({ length: count }, (_, place) => ({ x, y: gap * (place + 0.5), isLast: true }));
}
