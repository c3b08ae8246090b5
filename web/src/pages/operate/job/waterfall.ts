// Layout of a job's waterfall: rows, bars and marks of the axis. Pure.
import type { Schemas } from "@/api/types";
import type { Tone } from "@/design";
import type { Graph } from "@/parts/graph/graph";
import { operatorJobTexts as texts } from "@/texts/operator-job";

export type Waterfall = Schemas["Waterfall"];
export type Span = Schemas["Span"];

/** Shown time range, in milliseconds since 1970. */
export interface Range {
  start: number;
  end: number;
}

export interface Row {
  span: Span;
  label: string;
  /** Text beside the label: the class of a node, or how an attempt ended. */
  note: string | null;
  tone: Tone;
  isPart: boolean;
  /** The request that started the span. Missing if the span before has the same request. */
  request: string | null;
  /** Start, in percent of the range. */
  left: number;
  width: number;
}

export interface Tick {
  /** Position, in percent of the range. */
  left: number;
  milliseconds: number;
}

/** The page shows more nodes than this only on request. */
export const MAX_NODES = 12;
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 144e5,
  288e5, 864e5, 1728e5, 6048e5, 2592e6,
];
const MAX_TICKS = 6;
const ENDS: Readonly<Record<string, Tone>> = {
  completed: "ok",
  failed: "bad",
  expired: "bad",
  canceled: "plain",
  queued: "warn",
};

export function attemptsOf(waterfall: Waterfall): Span[] {
  return waterfall.spans.filter((span) => span.kind === "attempt");
}

/** Range of the whole job or of one attempt. It is never empty, so every span has a position. */
export function rangeOf(waterfall: Waterfall, attempt: number | undefined): Range {
  const chosen = attempt === undefined ? undefined : attemptsOf(waterfall).find((span) => span.attempt === attempt);
  const spans = chosen ? [chosen] : waterfall.spans;
  const start = Math.min(...spans.map((span) => Date.parse(span.started_at)));
  const end = Math.max(...spans.map((span) => endOf(span)));
  return { start, end: Math.max(end, start + 1) };
}

export function rowsOf(waterfall: Waterfall, range: Range, graph: Graph | null, areAllShown: boolean): Row[] {
  const names = new Map(graph?.nodes.map((node) => [node.id, node]));
  const shown = waterfall.spans.filter((span) => isIn(span, range));
  const kept = areAllShown ? null : longestNodes(shown);
  let request: string | null = null;
  return shown
    .filter((span) => span.kind !== "node" || kept === null || kept.has(span.id))
    .map((span) => {
      const isPart = span.parent_id !== null && span.parent_id !== undefined;
      const before = request;
      if (!isPart) request = span.request_id ?? null;
      const start = Math.max(Date.parse(span.started_at), range.start);
      const end = Math.min(endOf(span), range.end);
      const node = span.kind === "node" ? names.get(span.name) : undefined;
      return {
        span,
        label: labelOf(span, node?.title),
        note:
          span.kind === "node"
            ? [`#${span.name}`, node && node.classType !== node.title ? node.classType : ""].filter(Boolean).join(" ")
            : noteOf(span),
        tone: toneOf(span),
        isPart,
        request: isPart || request === before ? null : request,
        left: percent(start - range.start, range),
        width: percent(end - start, range),
      };
    });
}

export function nodesIn(waterfall: Waterfall, range: Range): number {
  return waterfall.spans.filter((span) => span.kind === "node" && isIn(span, range)).length;
}

/** The longest nodes of each attempt. Cached nodes took no time. */
function longestNodes(spans: readonly Span[]): Set<string> {
  const nodes = spans.filter((span) => span.kind === "node").sort((one, other) => other.duration_ms - one.duration_ms);
  const counts = new Map<string, number>();
  return new Set(
    nodes
      .filter((span) => {
        const count = (counts.get(span.parent_id ?? "") ?? 0) + 1;
        counts.set(span.parent_id ?? "", count);
        return count <= MAX_NODES;
      })
      .map((span) => span.id),
  );
}

/** Marks at round times since the start of the range. */
export function ticksOf(range: Range): Tick[] {
  const total = range.end - range.start;
  const step = STEPS.find((each) => total / each <= MAX_TICKS) ?? total;
  return Array.from({ length: Math.floor(total / step) + 1 }, (_, index) => ({
    left: percent(index * step, range),
    milliseconds: index * step,
  }));
}

/** Formats a duration: 0, 40 ms, 0.3 s, 12.6 s, 1 m 12 s, 2 h 5 m, 3 d 4 h. */
export function shortDuration(milliseconds: number): string {
  const units: readonly [number, string][] = [
    [86_400, "d"],
    [3_600, "h"],
    [60, "m"],
  ];
  if (milliseconds < 1) return "0";
  if (milliseconds < 999.5) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 59_950)
    return `${(milliseconds / 1000).toFixed(milliseconds < 9_950 ? 2 : 1).replace(/\.?0+$/, "")} s`;
  const seconds = Math.round(milliseconds / 1000);
  const [size, unit] = units.find(([size]) => seconds >= size) ?? [60, "m"];
  const [smaller, smallerUnit] = unit === "d" ? [3_600, "h"] : unit === "h" ? [60, "m"] : [1, "s"];
  const rest = Math.floor((seconds % size) / smaller);
  return rest === 0
    ? `${Math.floor(seconds / size)} ${unit}`
    : `${Math.floor(seconds / size)} ${unit} ${rest} ${smallerUnit}`;
}

/** Formats the duration of a node. Many nodes take less than a millisecond. */
export function spentTime(milliseconds: number): string {
  return milliseconds < 1 ? texts.noTime : shortDuration(milliseconds);
}

/** A wait that ended before the range starts is left out. */
function isIn(span: Span, range: Range): boolean {
  const start = Date.parse(span.started_at);
  return start <= range.end && (start >= range.start || endOf(span) > range.start);
}

function endOf(span: Span): number {
  return span.ended_at ? Date.parse(span.ended_at) : Date.parse(span.started_at) + span.duration_ms;
}

function percent(milliseconds: number, range: Range): number {
  return Math.min(100, Math.max(0, (100 * milliseconds) / (range.end - range.start)));
}

function labelOf(span: Span, title: string | undefined): string {
  switch (span.kind) {
    case "attempt":
      return texts.attemptOn(span.attempt ?? 1, span.worker_id ?? null);
    case "phase":
      return texts.phases[span.name] ?? span.name;
    case "node":
      return title ?? texts.kinds.node;
    case "provider":
      return texts.atProvider(span.name);
    case "callback":
      return texts.callbackOf(span.name, span.deliveries ?? 1);
    case "ended":
      return texts.outcomes[span.name] ? capital(texts.outcomes[span.name]!) : texts.kinds.ended;
    default:
      return texts.kinds[span.kind];
  }
}

function noteOf(span: Span): string | null {
  if (span.kind !== "attempt") return null;
  const end = span.outcome ? (texts.outcomes[span.outcome] ?? span.outcome) : texts.goesOn;
  return span.reason ? `${end}: ${span.reason}` : end;
}

function toneOf(span: Span): Tone {
  switch (span.kind) {
    case "attempt":
      return span.outcome ? (ENDS[span.outcome] ?? "run") : "run";
    case "ended":
      return ENDS[span.name] ?? "plain";
    case "queued":
      return "warn";
    case "provider":
    case "node":
      return "run";
    default:
      return "plain";
  }
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
