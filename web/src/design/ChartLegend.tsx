import type { Tone } from "./Badge";
import type { ChartProps } from "./Chart";

const COLOURS: Record<Tone, string> = {
  plain: "text-muted",
  ok: "text-ok",
  warn: "text-warn",
  bad: "text-bad",
  run: "text-run",
};

/** The lines of a chart with their values at the pointer, or at the end. */
export function ChartLegend({
  times,
  lines,
  format,
  at,
}: Pick<ChartProps, "times" | "lines" | "format"> & { at: number | null }) {
  const time = at === null ? undefined : times[at];
  return (
    <div className="num mb-1 flex flex-wrap gap-x-4 text-xs text-muted">
      {lines.map((line) => {
        const value = at === null ? line.values.findLast((each) => each !== null) : line.values[at];
        return (
          <span key={line.label} className="flex items-center gap-1.5">
            <svg viewBox="0 0 14 2" width="14" height="2" aria-hidden className={COLOURS[line.tone]}>
              <path
                d="M0 1h14"
                stroke="currentColor"
                strokeWidth="2"
                strokeDasharray={line.isDashed ? "4 2" : undefined}
              />
            </svg>
            {line.label}
            <span className="min-w-8 text-text">
              {value === null || value === undefined ? "–" : (line.format ?? format)(value)}
            </span>
          </span>
        );
      })}
      <span className="ml-auto">
        {time === undefined
          ? ""
          : new Date(time * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" })}
      </span>
    </div>
  );
}
