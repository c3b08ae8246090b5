import type { Effect } from "@/api/types";
import { classes } from "@/design/classes";
import { type Readiness, waitLine } from "./effects";

// Each state has its own shape, for people who cannot see the colour.
const MARKS: Record<Readiness, string> = {
  ready: "bg-ok",
  waits: "border-[1.5px] border-warn",
  unavailable: "rounded-[1px]! bg-muted",
};

/** Expected waiting time of a job. */
export function WaitText({ effect, className }: { effect: Effect; className?: string }) {
  const { text, readiness } = waitLine(effect);
  return (
    <p className={classes("flex items-center gap-1.5 text-s text-muted", className)}>
      <span aria-hidden className={classes("size-1.5 shrink-0 rounded-full", MARKS[readiness])} />
      <span className="num truncate">{text}</span>
    </p>
  );
}
