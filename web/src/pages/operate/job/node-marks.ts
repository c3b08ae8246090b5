// Marks the graph of a job with its execution: time, heat, the running node and the failed node. Pure.
import type { NodeMark } from "@/parts/graph/Graph";
import { operatorJobTexts as texts } from "@/texts/operator-job";
import { type Span, spentTime, type Waterfall } from "./waterfall";

export interface NodeTimes {
  milliseconds: number;
  /** Number of executions; 0: the outputs were cached. */
  runs: number;
}

/** Spans of the nodes of this attempt. Default: the last attempt with any. */
export function nodeSpans(waterfall: Waterfall, attempt: number | undefined): Span[] {
  const nodes = waterfall.spans.filter((span) => span.kind === "node");
  const chosen = attempt ?? Math.max(0, ...nodes.map((span) => span.attempt ?? 0));
  return nodes.filter((span) => span.attempt === chosen);
}

export function timesOf(spans: readonly Span[]): Map<string, NodeTimes> {
  const times = new Map<string, NodeTimes>();
  for (const span of spans) {
    const before = times.get(span.name) ?? { milliseconds: 0, runs: 0 };
    times.set(span.name, {
      milliseconds: before.milliseconds + span.duration_ms,
      runs: before.runs + (span.cached ? 0 : 1),
    });
  }
  return times;
}

export function marksOf(
  times: ReadonlyMap<string, NodeTimes>,
  runningNode: string | null,
  failedNode: string | null,
): Map<string, NodeMark> {
  const most = Math.max(1, ...[...times.values()].map((each) => each.milliseconds));
  const marks = new Map<string, NodeMark>();
  for (const [id, { milliseconds, runs }] of times) {
    // The square root of the share: a node with a tenth of the longest time is still visibly warm.
    marks.set(
      id,
      runs === 0
        ? { badges: [texts.cached] }
        : { badges: [spentTime(milliseconds)], heat: Math.sqrt(milliseconds / most) },
    );
  }
  if (failedNode !== null)
    marks.set(failedNode, {
      ...marks.get(failedNode),
      tone: "bad",
      badges: [texts.outcomes.failed!, ...(marks.get(failedNode)?.badges ?? [])],
    });
  if (runningNode !== null) marks.set(runningNode, { badges: [texts.running], tone: "run", isRunning: true });
  return marks;
}

/** The node at which the run failed, as the engine reported it. */
export function failedNodeOf(details: unknown): string | null {
  const node =
    typeof details === "object" && details !== null ? (details as Record<string, unknown>).node_id : undefined;
  return typeof node === "string" || typeof node === "number" ? String(node) : null;
}
