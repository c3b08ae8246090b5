import { useMemo } from "react";
import type { Schemas } from "@/api/types";
import { duration } from "@/design";
import { Chart, type ChartLine } from "@/design/Chart";
import { operateTexts } from "@/texts/operate";
import { compact, failedShare, idleShare, type Point, percent } from "./figures";

const count = (value: number) => compact.format(value);
const seconds = (value: number) => (value === 0 ? "0" : duration(value));
const texts = operateTexts.charts;

interface Line extends Omit<ChartLine, "values"> {
  read: (point: Point) => number | null | undefined;
  /** The last step is incomplete, so its count would look like a drop. */
  isCount?: boolean;
}

interface ChartOfPoints {
  title: string;
  /** Hint for a chart that a reader could misunderstand. */
  help?: string;
  format: (value: number) => string;
  lines: readonly Line[];
}

const CHARTS: readonly ChartOfPoints[] = [
  {
    title: texts.queue,
    format: count,
    lines: [
      { label: texts.queued, tone: "warn", read: (point) => point.queued },
      { label: texts.running, tone: "run", isDashed: true, read: (point) => point.running },
    ],
  },
  {
    title: texts.throughput,
    format: count,
    lines: [
      { label: texts.completed, tone: "ok", read: (point) => point.completed, isCount: true },
      {
        label: texts.failed,
        tone: "bad",
        isDashed: true,
        read: (point) => point.failed + point.expired,
        isCount: true,
      },
    ],
  },
  {
    title: texts.errors,
    help: texts.errorsHelp,
    format: count,
    lines: [
      { label: texts.failed, tone: "bad", read: (point) => point.failed + point.expired, isCount: true },
      {
        label: texts.failedShare,
        tone: "warn",
        isDashed: true,
        format: percent,
        read: (point) => failedShare([point]),
      },
    ],
  },
  {
    title: texts.engineIdle,
    help: texts.engineIdleHelp,
    format: percent,
    lines: [{ label: texts.idle, tone: "plain", read: (point) => idleShare([point]) }],
  },
  {
    title: texts.waits,
    format: seconds,
    lines: [
      { label: texts.p50, tone: "plain", read: (point) => point.wait_p50_seconds },
      { label: texts.p95, tone: "warn", isDashed: true, read: (point) => point.wait_p95_seconds },
    ],
  },
  {
    title: texts.runs,
    format: seconds,
    lines: [
      { label: texts.p50, tone: "plain", read: (point) => point.run_p50_seconds },
      { label: texts.p95, tone: "run", isDashed: true, read: (point) => point.run_p95_seconds },
    ],
  },
  {
    title: texts.workers,
    format: count,
    lines: [
      { label: texts.busy, tone: "ok", read: (point) => point.busy_workers },
      { label: texts.idle, tone: "plain", isDashed: true, read: (point) => point.idle_workers },
      { label: texts.draining, tone: "warn", isDashed: true, read: (point) => point.draining_workers },
    ],
  },
  {
    title: texts.tokens,
    format: count,
    lines: [{ label: texts.held, tone: "run", read: (point) => point.tokens_held }],
  },
];

export function Charts({ statistics }: { statistics: Schemas["Statistics"] }) {
  const { points } = statistics;
  const times = useMemo(() => points.map((point) => new Date(point.at).getTime() / 1000), [points]);
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      {CHARTS.map((chart) => (
        <section key={chart.title} className="panel p-4 pb-2">
          <h2 className="mb-2 text-m">{chart.title}</h2>
          {chart.help && <p className="mb-2 text-xs text-muted">{chart.help}</p>}
          <Chart
            label={chart.title}
            times={times}
            format={chart.format}
            lines={chart.lines.map((line) => ({ ...line, values: valuesOf(line, points) }))}
          />
        </section>
      ))}
    </div>
  );
}

function valuesOf(line: Line, points: readonly Point[]): (number | null)[] {
  return points.map((point, index) =>
    line.isCount && index === points.length - 1 ? null : (line.read(point) ?? null),
  );
}
