import type { JobEvent } from "@/api/types";
import { absoluteTime, classes, duration, Skeleton } from "@/design";
import type { Tone } from "@/design/Badge";
import { actorOf, linesOf, titleOf, toneOf } from "./job/events";

const DOTS: Record<Tone, string> = {
  plain: "bg-line-strong",
  ok: "bg-ok",
  warn: "border-2 border-warn bg-panel",
  bad: "rounded-[2px]! bg-bad",
  run: "bg-run",
};
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

/** History of a job, oldest first. */
export function Timeline({ events }: { events: readonly JobEvent[] | undefined }) {
  if (events === undefined) {
    return (
      <div className="grid gap-4" aria-hidden>
        {["w-24", "w-32", "w-28"].map((width) => (
          <Skeleton key={width} className={`h-4 ${width}`} />
        ))}
      </div>
    );
  }
  return (
    <ol className="num">
      {linesOf(events).map(({ event, seconds }, index) => (
        <li key={event.seq} className="relative grid grid-cols-[14px_1fr_auto] gap-x-3 pb-4 last:pb-0">
          {index < events.length - 1 && (
            <span aria-hidden className="absolute top-4 bottom-[-5px] left-[6px] w-px bg-line" />
          )}
          <span
            aria-hidden
            className={classes("mt-1.5 size-2.5 justify-self-center rounded-full", DOTS[toneOf(event)])}
          />
          <div className="min-w-0">
            <div>
              {titleOf(event)} {actorOf(event) && <span className="text-muted">{actorOf(event)}</span>}
            </div>
            {event.reason && <div className="text-s break-words text-muted">{event.reason}</div>}
          </div>
          <div className="text-right text-s text-muted">
            <time dateTime={event.at} title={absoluteTime(new Date(event.at))}>
              {clock.format(new Date(event.at))}
            </time>
            {seconds !== null && seconds >= 0.05 && <div className="text-xs">+{duration(seconds)}</div>}
          </div>
        </li>
      ))}
    </ol>
  );
}
