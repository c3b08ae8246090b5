// Height of the canvas of a graph. Pure.
import type { Graph } from "@/parts/graph/graph";
import { layoutGraph } from "@/parts/graph/layout";

const AROUND = 150;
const MIN_HEIGHT = 240;
const MAX_HEIGHT = 460;

/** Height of the canvas; small graphs get less. */
export function graphHeight(graph: Graph): number {
  return Math.min(MAX_HEIGHT, Math.max(MIN_HEIGHT, layoutGraph(graph).height + AROUND));
}
