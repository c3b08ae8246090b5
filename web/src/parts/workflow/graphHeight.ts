// Height of the canvas of a graph. Pure.
import type { Graph } from "@/parts/graph/graph";
import { layoutGraph } from "@/parts/graph/layout";

const AROUND = 150;
const LEAST = 240;
const MOST = 460;

/** Height of the canvas; small graphs get less. */
export function graphHeight(graph: Graph): number {
  return Math.min(MOST, Math.max(LEAST, layoutGraph(graph).height + AROUND));
}
