import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useTheme } from "@/parts/theme";
import type { Tone } from "./Badge";
import { CHART_HEIGHT, type ChartLine, type ChartProps } from "./Chart";
import { ChartLegend } from "./ChartLegend";
import { alone, stepsFor } from "./chart-values";

const COLOURS: Record<Tone, string> = { plain: "--muted", ok: "--ok", warn: "--warn", bad: "--bad", run: "--run" };

export default function ChartDrawing({ label, times, lines, format, height = CHART_HEIGHT }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const latest = useRef({ times, lines });
  latest.current = { times, lines };
  const theme = useTheme();
  /** The step under the pointer. */
  const [hovered, setHovered] = useState<number | null>(null);
  // Only a change of shape creates a new chart. New values go into the existing one.
  const shape = lines.map((line) => `${line.label} ${line.tone}`).join("|");
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const draw = () => {
      chart.current?.destroy();
      const drawn = new uPlot(
        options(element.clientWidth, height, latest.current.lines, format, setHovered),
        table(latest.current.times, latest.current.lines),
        element,
      );
      chart.current = drawn;
    };
    draw();
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const resized = new ResizeObserver(() => chart.current?.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    dark.addEventListener("change", draw);
    return () => {
      resized.disconnect();
      dark.removeEventListener("change", draw);
      chart.current?.destroy();
      chart.current = null;
    };
  }, [shape, height, theme, format]);
  useEffect(() => chart.current?.setData(table(times, lines)), [times, lines]);
  return (
    <>
      <ChartLegend times={times} lines={lines} format={format} at={hovered} />
      <div ref={place} role="img" aria-label={`${label}. ${summary(lines, format)}`} style={{ minHeight: height }} />
    </>
  );
}

function table(times: readonly number[], lines: readonly ChartLine[]): uPlot.AlignedData {
  return [[...times], ...lines.map((line) => [...line.values])] as uPlot.AlignedData;
}

function options(
  width: number,
  height: number,
  lines: readonly ChartLine[],
  format: (value: number) => string,
  onHover: (step: number | null) => void,
): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const font = `11px ${style.getPropertyValue("--font")}`;
  const right = lines.find((line) => line.format !== undefined)?.format;
  const range = (_: uPlot, least: number, most: number): uPlot.Range.MinMax => [
    Math.min(0, least),
    most > 0 ? most * 1.1 : 1,
  ];
  const incrs = (isRight: boolean) => (chart: uPlot) =>
    stepsFor(chart.data.slice(1).filter((_, index) => (lines[index]?.format !== undefined) === isRight));
  const axis = {
    stroke: colour("--muted"),
    font,
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height,
    // The right edge needs room for half of the last time label. With an axis there is room already.
    padding: [8, right ? 0 : 26, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    hooks: { setCursor: [(chart) => onHover(chart.cursor.idx ?? null)] },
    scales: { y: { range }, right: { range } },
    axes: [
      { ...axis, size: 30, space: 64, values: (_, at) => at.map((second, index) => timeLabel(second, at, index)) },
      { ...axis, size: 56, space: 32, incrs: incrs(false), values: (_, at) => at.map((value) => format(value)) },
      ...(right
        ? [
            {
              ...axis,
              scale: "right",
              side: 1 as const,
              size: 56,
              space: 32,
              grid: { show: false },
              incrs: incrs(true),
              values: (_: uPlot, at: number[]) => at.map((value) => right(value)),
            },
          ]
        : []),
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        scale: line.format ? "right" : "y",
        stroke: colour(COLOURS[line.tone]),
        width: 1.6,
        dash: line.isDashed ? [4, 4] : undefined,
        // A value between two gaps is not part of a line.
        points: {
          show: false,
          size: 5,
          fill: colour(COLOURS[line.tone]),
          filter: (chart: uPlot, index: number) => alone(chart.data[index] ?? []),
        },
        spanGaps: false,
      })),
    ],
  };
}

/** Labels are hours within one day, and days if the ticks are days apart. */
function timeLabel(second: number, all: readonly number[], index: number): string {
  const at = new Date(second * 1000);
  const step = (all[1] ?? second) - (all[0] ?? second);
  if (step >= 86_400 || (index === 0 && step >= 43_200))
    return at.toLocaleDateString(undefined, { day: "numeric", month: "short" });
  return at.toLocaleTimeString(undefined, {
    hour: "numeric",
    minute: "2-digit",
    second: step < 60 ? "2-digit" : undefined,
  });
}

function summary(lines: readonly ChartLine[], format: (value: number) => string): string {
  return lines
    .map((line) => {
      const last = line.values.findLast((value) => value !== null);
      return `${line.label}: ${last === undefined || last === null ? "no values" : (line.format ?? format)(last)}`;
    })
    .join(", ");
}
