// Finds the candidate that an arrow key selects. Pure.
import type { Layout } from "./layout";

export type Direction = "left" | "right" | "up" | "down";

/**
 * Id of the next candidate in this direction: the parent, the first child, or the one above or below in the same step.
 */
export function neighbour(layout: Layout, id: string | undefined, direction: Direction): string | null {
  const place = id === undefined ? undefined : layout.index.get(id);
  if (place === undefined) return layout.placed.find((one) => one.node)?.node?.id ?? null;
  const here = layout.placed[place];
  if (!here) return null;
  if (direction === "left") return layout.placed[here.parent]?.node?.id ?? null;
  if (direction === "right")
    return layout.children[place]?.map((child) => layout.placed[child]?.node?.id).find(Boolean) ?? null;
  const sign = direction === "down" ? 1 : -1;
  let best: string | null = null;
  let nearest = Infinity;
  for (const other of layout.placed) {
    const away = (other.y - here.y) * sign;
    if (other.node && other.x === here.x && away > 0 && away < nearest) {
      nearest = away;
      best = other.node.id;
    }
  }
  return best;
}
