import { classes, type Tone } from "@/design";
import type { Row, Tick } from "./waterfall";

const BARS: Record<Tone, string> = {
  plain: "bg-line-strong",
  ok: "bg-ok",
  warn: "bg-warn",
  bad: "bg-bad",
  run: "bg-run",
};

/** Position of a span on the axis. The text of the row has the same values. */
export function WaterfallBar({ row, ticks = [] }: { row: Row; ticks?: readonly Tick[] }) {
  const isMoment = row.span.kind === "ended" || row.span.kind === "callback" || row.span.cached;
  return (
    <span
      aria-hidden
      className={classes("relative block overflow-hidden rounded-s", row.isPart ? "h-3" : "h-4", "bg-hover")}
    >
      {ticks.map((tick) => (
        <span key={tick.milliseconds} className="absolute inset-y-0 w-px bg-line" style={{ left: `${tick.left}%` }} />
      ))}
      {isMoment ? (
        <span
          className={classes("absolute inset-y-0 w-[3px]", row.span.cached ? "bg-line-strong" : BARS[row.tone])}
          style={{ left: `min(${row.left}%, calc(100% - 3px))` }}
        />
      ) : (
        <span
          className={classes(
            "absolute inset-y-0 min-w-0.5 rounded-[3px]",
            BARS[row.tone],
            row.span.kind === "phase" && "opacity-60",
            !row.span.ended_at && "animate-pulse",
          )}
          style={{ left: `min(${row.left}%, calc(100% - 2px))`, width: `${row.width}%` }}
        />
      )}
    </span>
  );
}
