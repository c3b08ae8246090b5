import type { Effect } from "@/api/types";
import { classes } from "@/design/classes";
import { type Readiness, waitLine } from "./effects";

// A shape of its own each, for people who do not see the colour.
const MARKS: Record<Readiness, string> = {
  ready: "bg-ok",
  waits: "border-[1.5px] border-warn",
  unavailable: "rounded-[1px]! bg-muted",
};

/** What a job may expect now. */
export function WaitText({ effect, className }: { effect: Effect; className?: string }) {
  const { text, readiness } = waitLine(effect);
  return (
    <p className={classes("flex items-center gap-1.5 text-s text-muted", className)}>
      <span aria-hidden className={classes("size-1.5 shrink-0 rounded-full", MARKS[readiness])} />
      <span className="num truncate">{text}</span>
    </p>
  );
}
