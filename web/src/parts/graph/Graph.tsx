import { lazy, Suspense, useMemo } from "react";
import { Skeleton, type Tone } from "@/design";
import type { Graph as GraphValue } from "./graph";
import { layoutGraph } from "./layout";

/** Extra content of one node beside its title and class. */
export interface NodeMark {
  tone?: Tone;
  /** Short texts at the node, such as a time, "Input" or "Output". */
  badges?: readonly string[];
  /** Warmth of the node, from 0 to 1. */
  heat?: number;
  /** The node is running now. */
  isRunning?: boolean;
}

export interface GraphProps {
  /** Content of the graph in words, for people who cannot see it. */
  label: string;
  graph: GraphValue;
  /** Marks by id of the node. */
  marks?: ReadonlyMap<string, NodeMark>;
  selected?: readonly string[];
  /**
   * Receives the node that the user clicked or selected by keyboard, even if it is selected already. Without it nodes
   * are not buttons.
   */
  onSelect?: (id: string) => void;
  height?: number;
}

const Drawing = lazy(() => import("./GraphDrawing"));
const HEIGHT = 420;

/** A graph of nodes that users can move and zoom. The drawing code loads with the first graph. */
export function Graph({ height = HEIGHT, ...props }: GraphProps) {
  const layout = useMemo(() => layoutGraph(props.graph), [props.graph]);
  return (
    <div style={{ height }} className="overflow-hidden rounded-m border border-line bg-bg">
      <Suspense fallback={<Skeleton className="h-full" />}>
        <Drawing {...props} layout={layout} />
      </Suspense>
    </div>
  );
}
