// Appearance of a node: its colour is the rating, its shape is the state. Pure.
import type { TreeNode } from "./layout";

export const SHAPES = ["active", "winner", "making", "rejected", "surplus", "failing"] as const;
export type Shape = (typeof SHAPES)[number];

/** Colours from worst to best. The middle one means: not compared, or as many wins as losses. */
export const BUCKETS = 9;
export const MIDDLE = (BUCKETS - 1) / 2;
const START_ELO = 1000;
// A smaller spread means little: one vote moves a rating by 16.
const MIN_SPREAD = 32;

export function shapeOf(node: TreeNode | null, isWinner: boolean): Shape {
  if (node === null) return "making";
  if (node.status === "rejected") return node.rejection === "surplus" ? "surplus" : "rejected";
  if (isWinner) return "winner";
  return node.failure_count > 0 && node.child_count === 0 && node.in_flight === 0 ? "failing" : "active";
}

/** Largest distance of a rating from the initial rating. */
export function spreadOf(nodes: readonly Pick<TreeNode, "elo">[]): number {
  let spread = MIN_SPREAD;
  for (const node of nodes) spread = Math.max(spread, Math.abs(node.elo - START_ELO));
  return spread;
}

export function bucketOf(elo: number, spread: number): number {
  const share = Math.max(-1, Math.min(1, (elo - START_ELO) / spread));
  return Math.round(MIDDLE + share * MIDDLE);
}

/** Colours from worst over middle to best, in hexadecimal. */
export function palette(worst: string, middle: string, best: string): string[] {
  return Array.from({ length: BUCKETS }, (_, bucket) =>
    bucket < MIDDLE ? mix(worst, middle, bucket / MIDDLE) : mix(middle, best, (bucket - MIDDLE) / MIDDLE),
  );
}

export function mix(from: string, to: string, share: number): string {
  const [a, b] = [channels(from), channels(to)];
  return `#${a
    .map((value, place) =>
      Math.round(value + ((b[place] ?? 0) - value) * share)
        .toString(16)
        .padStart(2, "0"),
    )
    .join("")}`;
}

function channels(hex: string): number[] {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
}

/** The best active candidates of the last step, in the order of the server: by rating, then by age. */
export function winnersOf(nodes: readonly TreeNode[], steps: number, most: number): Set<string> {
  const leaves = nodes.filter((node) => node.position === steps && node.status === "active" && node.votes > 0);
  leaves.sort((a, b) => b.elo - a.elo || a.number - b.number);
  return new Set(leaves.slice(0, most).map((node) => node.id));
}
