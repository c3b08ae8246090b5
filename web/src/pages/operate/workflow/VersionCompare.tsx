import { useQuery } from "@tanstack/react-query";
import { RotateCcw } from "lucide-react";
import { useMemo } from "react";
import type { Schemas } from "@/api/types";
import { Button, Select, Skeleton } from "@/design";
import { Graph, type NodeMark } from "@/parts/graph/Graph";
import { readGraph } from "@/parts/graph/graph";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { DiffView } from "@/parts/workflow/DiffView";
import { changedNodes, diffOf, isEmptyDiff } from "@/parts/workflow/diff";
import { draftOf } from "@/parts/workflow/draft";
import { graphHeight } from "@/parts/workflow/graphHeight";
import { workflowsTexts } from "@/texts/workflows";
import { versionQuery } from "./queries";

type Detail = Schemas["WorkflowVersionDetail"];

interface Props {
  slug: string;
  versions: readonly Schemas["WorkflowVersion"][];
  version: number;
  /** undefined if there is no other version. */
  against: number | undefined;
  onAgainst: (version: number) => void;
  onRestore: ((detail: Detail) => void) | null;
}

/** Changes between two versions, in words and in the graph of the newer one. */
export function VersionCompare({ slug, versions, version, against, onAgainst, onRestore }: Props) {
  const shown = useQuery(versionQuery(slug, version));
  const other = useQuery(versionQuery(slug, against));
  const isNewer = against === undefined || version > against;
  const newer = isNewer ? shown.data : other.data;
  const older = isNewer ? other.data : shown.data;
  const diff = useMemo(() => (older && newer ? diffOf(draftOf(older), draftOf(newer)) : null), [older, newer]);
  const graph = useMemo(() => readGraph(newer?.graph), [newer]);
  const marks = useMemo(() => {
    const changed = diff ? changedNodes(diff) : new Map<string, "added" | "changed">();
    return new Map(
      [...changed].map(([id, how]): [string, NodeMark] => [
        id,
        { tone: how === "added" ? "ok" : "warn", badges: [workflowsTexts.marks[how]] },
      ]),
    );
  }, [diff]);
  const failed = shown.error ?? other.error;
  if (failed) return <ProblemPanel error={failed} />;
  return (
    <section className="grid min-w-0 gap-4">
      <div className="flex flex-wrap items-end justify-between gap-3">
        <h2>
          {older && newer ? workflowsTexts.whatChanged(older.version, newer.version) : workflowsTexts.version(version)}
        </h2>
        <div className="flex flex-wrap gap-2">
          {against !== undefined && (
            <Select
              className="w-auto!"
              label={workflowsTexts.compareWith}
              value={String(against)}
              choices={versions
                .filter((each) => each.version !== version)
                .map((each) => ({ value: String(each.version), label: workflowsTexts.comparedWith(each.version) }))}
              onChange={(chosen) => onAgainst(Number(chosen))}
            />
          )}
          {onRestore && shown.data && (
            <Button icon={<RotateCcw size={16} />} onClick={() => onRestore(shown.data)}>
              {workflowsTexts.restore}
            </Button>
          )}
        </div>
      </div>
      {graph && newer && (
        <Graph
          label={workflowsTexts.graphOfVersion(newer.version)}
          graph={graph}
          marks={marks}
          height={graphHeight(graph)}
        />
      )}
      {against === undefined ? (
        <p className="text-muted">{workflowsTexts.firstVersion}</p>
      ) : diff === null ? (
        <Skeleton className="h-32" />
      ) : isEmptyDiff(diff) ? (
        <p className="text-muted">{workflowsTexts.noDifference}</p>
      ) : (
        <DiffView diff={diff} />
      )}
    </section>
  );
}
