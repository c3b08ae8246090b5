import { type Edge, MiniMap, ReactFlow, ReactFlowProvider } from "@xyflow/react";
import { useMemo, useRef } from "react";
import "@xyflow/react/dist/base.css";
import "./graph.css";
import { graphTexts } from "@/texts/graph";
import type { GraphProps } from "./Graph";
import { FIT, GraphControls } from "./GraphControls";
import { type GraphFlowNode, GraphNodeBox } from "./GraphNodeBox";
import { type Layout, NODE_HEIGHT, NODE_WIDTH } from "./layout";

const NODE_TYPES = { box: GraphNodeBox };
/** Larger graphs get a small map, and nodes out of sight are not drawn. */
const MANY = 40;
const VERY_MANY = 300;

export default function GraphDrawing({
  label,
  graph,
  layout,
  marks,
  selected = [],
  onSelect,
}: GraphProps & { layout: Layout }) {
  const wasMoved = useRef(false);
  const nodes = useMemo(
    () =>
      graph.nodes.map(
        (node): GraphFlowNode => ({
          id: node.id,
          type: "box",
          position: layout.positions.get(node.id) ?? { x: 0, y: 0 },
          // The size is set before the browser measures it, so edges and map are there at once.
          width: NODE_WIDTH,
          height: NODE_HEIGHT,
          data: { node, mark: marks?.get(node.id), isSelected: selected.includes(node.id), onSelect },
        }),
      ),
    [graph, layout, marks, selected, onSelect],
  );
  const edges = useMemo(
    () =>
      graph.edges.map(
        (edge): Edge => ({
          id: edge.id,
          source: edge.source,
          target: edge.target,
          selected: selected.includes(edge.source) || selected.includes(edge.target),
          animated: marks?.get(edge.target)?.isRunning ?? false,
        }),
      ),
    [graph, marks, selected],
  );
  return (
    <ReactFlowProvider>
      <ReactFlow
        className="graph"
        aria-label={label}
        nodes={nodes}
        edges={edges}
        nodeTypes={NODE_TYPES}
        fitView
        fitViewOptions={FIT}
        minZoom={0.05}
        maxZoom={1.5}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        onMoveStart={(event) => {
          // Moves by this code have no event.
          if (event) wasMoved.current = true;
        }}
        deleteKeyCode={null}
        // The wheel scrolls the page. With Ctrl or ⌘ it zooms.
        zoomOnScroll={false}
        preventScrolling={false}
        zoomOnDoubleClick={false}
        onlyRenderVisibleElements={graph.nodes.length > VERY_MANY}
      >
        {graph.nodes.length >= MANY && (
          <MiniMap
            position="top-right"
            className="max-md:hidden"
            ariaLabel={graphTexts.map}
            pannable
            nodeColor="var(--line-strong)"
          />
        )}
        <GraphControls wasMoved={wasMoved} />
      </ReactFlow>
    </ReactFlowProvider>
  );
}
