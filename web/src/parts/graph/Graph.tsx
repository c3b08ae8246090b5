import { lazy, Suspense, useMemo } from "react";
import { Skeleton, type Tone } from "@/design";
import type { Graph as GraphValue } from "./graph";
import { layoutGraph } from "./layout";

/** What is shown of one node beside its title and class. */
export interface NodeMark {
  tone?: Tone;
  /** Short texts at the node, such as a time, "Input" or "Output". */
  badges?: readonly string[];
  /** From 0 to 1: how warm the node is drawn. */
  heat?: number;
  /** The node works now. */
  isRunning?: boolean;
}

export interface GraphProps {
  /** What the graph is, for people who do not see it. */
  label: string;
  graph: GraphValue;
  /** By the node's id. */
  marks?: ReadonlyMap<string, NodeMark>;
  selected?: readonly string[];
  /** Called with the node that was clicked or chosen by the keyboard, also where it is selected already. Without it nodes are not buttons. */
  onSelect?: (id: string) => void;
  height?: number;
}

const Drawing = lazy(() => import("./GraphDrawing"));
const HEIGHT = 420;

/** A graph of nodes, which can be moved and zoomed. The code that draws comes when the first graph is shown. */
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
