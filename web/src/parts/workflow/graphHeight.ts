// How high the drawing of a graph has to be. Pure.
import type { Graph } from "@/parts/graph/graph";
import { layoutGraph } from "@/parts/graph/layout";

const AROUND = 150;
const LEAST = 240;
const MOST = 460;

/** A small graph leaves the room to what is below it. */
export function graphHeight(graph: Graph): number {
  return Math.min(MOST, Math.max(LEAST, layoutGraph(graph).height + AROUND));
}
