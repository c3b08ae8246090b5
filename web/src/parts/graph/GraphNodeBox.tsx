import { Handle, type Node, type NodeProps, Position, useReactFlow } from "@xyflow/react";
import type { FocusEvent } from "react";
import { classes, type Tone } from "@/design";
import { graphTexts } from "@/texts/graph";
import type { NodeMark } from "./Graph";
import type { GraphNode } from "./graph";
import { NODE_HEIGHT, NODE_WIDTH } from "./layout";

export interface GraphNodeData extends Record<string, unknown> {
  node: GraphNode;
  mark: NodeMark | undefined;
  isSelected: boolean;
  onSelect: ((id: string) => void) | undefined;
}
export type GraphFlowNode = Node<GraphNodeData, "box">;

const TONES: Record<Tone, string> = {
  plain: "border-line",
  ok: "border-ok",
  warn: "border-warn",
  bad: "border-bad",
  run: "border-run",
};
const BADGES: Record<Tone, string> = {
  plain: "text-muted",
  ok: "text-ok",
  warn: "text-warn",
  bad: "text-bad",
  run: "text-run",
};
/** The text must stay readable on the warmest node. */
const WARMEST = 0.13;
const READABLE = 0.7;

export function GraphNodeBox({ data: { node, mark, isSelected, onSelect } }: NodeProps<GraphFlowNode>) {
  const { getNode, getZoom, setCenter } = useReactFlow();
  const tone = mark?.tone ?? "plain";
  const badges = mark?.badges ?? [];
  const look = classes("graph-box", TONES[tone], isSelected && "is-selected", mark?.isRunning && "is-running");
  const style =
    mark?.heat === undefined
      ? undefined
      : { background: `color-mix(in srgb, var(--accent) ${Math.round(mark.heat * WARMEST * 100)}%, var(--panel))` };
  // The keyboard may reach a node that is out of sight.
  const show = (event: FocusEvent<HTMLElement>) => {
    const at = getNode(node.id)?.position;
    if (at && event.currentTarget.matches(":focus-visible"))
      void setCenter(at.x + NODE_WIDTH / 2, at.y + NODE_HEIGHT / 2, { zoom: Math.max(getZoom(), READABLE) });
  };
  const content = (
    <>
      <span className="flex w-full items-baseline gap-2">
        <span className="min-w-0 flex-1 truncate text-s font-[550]" title={node.title}>
          {node.title}
        </span>
        <span className="num shrink-0 text-xs text-muted">{graphTexts.id(node.id)}</span>
      </span>
      <span className="flex w-full items-baseline gap-2 text-xs">
        <span className="min-w-0 flex-1 truncate text-muted" title={node.classType}>
          {node.classType}
        </span>
        {badges.length > 0 && (
          <span className={classes("num min-w-0 max-w-[60%] shrink-0 truncate font-[550]", BADGES[tone])}>
            {badges.join(" · ")}
          </span>
        )}
      </span>
    </>
  );
  return (
    <>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      {onSelect ? (
        <button
          type="button"
          className={look}
          style={style}
          aria-pressed={isSelected}
          onClick={() => onSelect(node.id)}
          onFocus={show}
        >
          {content}
        </button>
      ) : (
        <div className={look} style={style}>
          {content}
        </div>
      )}
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </>
  );
}
