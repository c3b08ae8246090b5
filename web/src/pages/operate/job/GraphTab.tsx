import { useNavigate, useSearch } from "@tanstack/react-router";
import { Workflow } from "lucide-react";
import { useCallback, useMemo } from "react";
import { Empty } from "@/design";
import { Graph } from "@/parts/graph/Graph";
import type { Graph as GraphValue } from "@/parts/graph/graph";
import type { AdminJob } from "@/parts/job/queries";
import { operatorJobTexts as texts } from "@/texts/operator-job";
import { NodePanel } from "./NodePanel";
import { failedNodeOf, marksOf, nodeSpans, timesOf } from "./node-marks";
import type { Waterfall } from "./waterfall";

interface Props {
  job: AdminJob;
  graph: GraphValue | null;
  waterfall: Waterfall;
}

/** The executed graph with the time of each node. */
export function GraphTab({ job, graph, waterfall }: Props) {
  const { node, attempt } = useSearch({ from: "/framed/operator/operate/jobs/$id" });
  const navigate = useNavigate({ from: "/operate/jobs/$id" });
  const select = useCallback(
    (id: string | undefined) =>
      void navigate({
        search: (before) => ({ ...before, node: id === node ? undefined : id }),
        replace: true,
        resetScroll: false,
      }),
    [navigate, node],
  );
  const times = useMemo(() => timesOf(nodeSpans(waterfall, attempt)), [waterfall, attempt]);
  const running = waterfall.progress?.node_id ?? null;
  const failed = failedNodeOf(job.full_error?.details);
  const marks = useMemo(() => marksOf(times, running, failed), [times, running, failed]);
  const selected = useMemo(() => (node === undefined ? [] : [node]), [node]);
  if (graph === null) {
    const isHidden = job.payload === null || job.payload === undefined;
    return (
      <Empty
        icon={<Workflow size={20} />}
        title={isHidden ? texts.hidden : texts.noGraph}
        text={isHidden ? texts.hiddenText : texts.noGraphText}
      />
    );
  }
  const chosen = graph.nodes.find((each) => each.id === node);
  return (
    <div className="grid gap-3">
      <p className="text-s text-muted">{texts.graphHint}</p>
      <Graph label={texts.graphLabel} graph={graph} marks={marks} selected={selected} onSelect={select} height={460} />
      {chosen && <NodePanel node={chosen} times={times.get(chosen.id)} onClose={() => select(undefined)} />}
    </div>
  );
}
