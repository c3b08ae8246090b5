import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useMemo } from "react";
import { classes, Skeleton } from "@/design";
import { Graph, type NodeMark } from "@/parts/graph/Graph";
import { readGraph } from "@/parts/graph/graph";
import { useDropAndPaste } from "@/parts/upload/useDropAndPaste";
import { changedNodes } from "@/parts/workflow/diff";
import { keysByNode, withGraph } from "@/parts/workflow/draft";
import { ExportButton } from "@/parts/workflow/ExportButton";
import { ExportProblem } from "@/parts/workflow/ExportProblem";
import { graphHeight } from "@/parts/workflow/graphHeight";
import { proposalQuery } from "@/parts/workflow/queries";
import { useExport } from "@/parts/workflow/useExport";
import { workflowsTexts } from "@/texts/workflows";
import { NodePanel } from "./NodePanel";
import { PropertyList } from "./PropertyList";
import type { EditorProps } from "./WorkflowPage";

// Form, uploads and players load separately, so the graph does not wait for them.
const TestPanel = lazy(async () => ({ default: (await import("@/parts/workflow/TestPanel")).TestPanel }));

export function DesignTab({ workflow, editing, mayChange, refused }: EditorProps) {
  const { node: selected, test } = useSearch({ from: "/framed/operator/operate/workflows/$slug" });
  const navigate = useNavigate({ from: "/operate/workflows/$slug" });
  const { draft, change, diff } = editing;
  const proposal = useQuery(proposalQuery(draft.graph, mayChange));
  const graph = useMemo(() => readGraph(draft.graph), [draft.graph]);
  const marks = useMemo((): Map<string, NodeMark> => {
    const keys = keysByNode(draft);
    const changed = changedNodes(diff);
    const ids = new Set([...keys.keys(), ...changed.keys(), ...(draft.output_node_id ? [draft.output_node_id] : [])]);
    return new Map(
      [...ids].map((id) => {
        const isResult = id === draft.output_node_id;
        const state = changed.get(id);
        const badges = [
          ...(isResult ? [workflowsTexts.marks.result] : []),
          ...(keys.get(id) ?? []),
          ...(state === "added" ? [workflowsTexts.marks.added] : []),
        ];
        return [id, { badges, tone: isResult ? "ok" : keys.has(id) ? "run" : state ? "warn" : "plain" }];
      }),
    );
  }, [draft, diff]);
  const select = useCallback(
    (id: string | undefined) =>
      void navigate({
        search: (now) => ({ ...now, node: id === now.node ? undefined : id }),
        replace: true,
        resetScroll: false,
      }),
    [navigate],
  );
  const read = useExport();
  const replace = (file: File) =>
    read.mutate(file, { onSuccess: ({ proposal: found }) => change((now) => withGraph(now, found)) });
  const isOver = useDropAndPaste(mayChange, replace);
  const chosen = graph?.nodes.find((each) => each.id === selected);
  const ids = useMemo(() => (selected === undefined ? [] : [selected]), [selected]);
  return (
    <div className="grid gap-6">
      <section
        className={classes(
          "grid gap-2 rounded-m",
          isOver && "outline-2 outline-offset-4 outline-accent outline-dashed",
        )}
      >
        <div className="flex flex-wrap items-center justify-between gap-3">
          <p className="text-s text-muted">
            {isOver ? workflowsTexts.dropNow : mayChange ? workflowsTexts.graphHint : ""}
          </p>
          {mayChange && (
            <ExportButton busy={read.isPending} onFile={replace}>
              {workflowsTexts.replaceGraph}
            </ExportButton>
          )}
        </div>
        {graph && (
          <Graph
            label={workflowsTexts.graph}
            graph={graph}
            marks={marks}
            selected={ids}
            onSelect={select}
            height={graphHeight(graph)}
          />
        )}
      </section>
      {read.error && <ExportProblem error={read.error} onClose={read.reset} />}
      <div className="grid items-start gap-6 lg:grid-cols-[minmax(0,1fr)_minmax(20rem,26rem)]">
        <div className="grid min-w-0 gap-6">
          {chosen && (
            <NodePanel
              node={chosen}
              draft={draft}
              proposal={proposal.data}
              change={mayChange ? change : null}
              onClose={() => select(undefined)}
            />
          )}
          <PropertyList draft={draft} change={mayChange ? change : null} refused={refused} />
        </div>
        <Suspense fallback={<Skeleton className="h-64 rounded-m!" />}>
          <TestPanel
            slug={workflow.slug}
            isActive={workflow.is_active}
            properties={draft.properties}
            draft={editing.isDirty ? draft : null}
            mayRun={mayChange}
            job={test}
            onJob={(id) =>
              void navigate({ search: (now) => ({ ...now, test: id }), replace: true, resetScroll: false })
            }
            onFleets={() => void navigate({ search: (now) => ({ ...now, tab: "settings" }) })}
          />
        </Suspense>
      </div>
    </div>
  );
}
