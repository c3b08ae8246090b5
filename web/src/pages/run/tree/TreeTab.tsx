import { useQuery } from "@tanstack/react-query";
import { GitFork } from "lucide-react";
import { Empty } from "@/design";
import { Pending } from "@/parts/Pending";
import { runTexts, treeTexts } from "@/texts/runs";
import { CandidatePanel } from "../panel/CandidatePanel";
import { type Run, type TreeNode, treeQuery } from "../queries";
import { TreeCanvas } from "./TreeCanvas";
import { TreeLegend } from "./TreeLegend";
import { useScene } from "./useScene";

interface Props {
  run: Run;
  selected: string | undefined;
  onSelect: (id: string | undefined) => void;
}

export function TreeTab(props: Props) {
  const tree = useQuery(treeQuery(props.run.id));
  if (!tree.data) return <Pending query={tree} className="h-[max(20rem,calc(100dvh-26rem))]" />;
  if (tree.data.length === 0 && props.run.steps.every((step) => step.in_flight === 0)) {
    return <Empty icon={<GitFork size={20} />} title={runTexts.empty} text={runTexts.emptyText} />;
  }
  return <Tree {...props} nodes={tree.data} />;
}

function Tree({ run, nodes, selected, onSelect }: Props & { nodes: readonly TreeNode[] }) {
  const scene = useScene(run, nodes);
  const place = selected === undefined ? undefined : scene.layout.index.get(selected);
  const node = place === undefined ? null : (scene.layout.placed[place]?.node ?? null);
  const step = run.steps.find((each) => each.step.id === node?.step_id)?.step.name ?? "";
  const shape = place === undefined ? undefined : scene.shapes[place];
  const selectedText = node && shape ? treeTexts.selected(node.number, step, node.elo, treeTexts.shapes[shape]) : "";
  return (
    <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,1fr)_360px]">
      <div className="grid min-w-0 gap-3">
        <TreeCanvas
          runId={run.id}
          scene={scene}
          count={nodes.length}
          selected={selected}
          selectedText={selectedText}
          onSelect={onSelect}
        />
        <TreeLegend look={scene.look} />
      </div>
      {selected === undefined ? (
        <p className="panel p-5 text-muted max-lg:hidden">{treeTexts.select}</p>
      ) : (
        <CandidatePanel key={selected} run={run} id={selected} onSelect={onSelect} />
      )}
    </div>
  );
}
