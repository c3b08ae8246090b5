import type { Schemas } from "@/api/types";
import { duration, Stat } from "@/design";
import { FigureLink } from "@/parts/FigureLink";
import { startOf } from "@/parts/job/all-jobs-filters";
import type { Span } from "@/parts/job/statuses";
import { queuedText } from "@/parts/queued-jobs";
import { operateTexts } from "@/texts/operate";
import { compact, failedShare, idleShare, latest, percent, perMinute, worst } from "./figures";

const links = operateTexts.links;
const SPANS: Record<Schemas["Statistics"]["range"], Span> = { "1h": "hour", "24h": "day", "30d": "month" };

interface Props {
  statistics: Schemas["Statistics"];
  /** The last hour in minutes. Points of a longer range are means of up to an hour. */
  recent: Schemas["Statistics"];
  metrics: Schemas["Metrics"];
}

/** The most important figures for an operator. */
export function Figures({ statistics, recent, metrics }: Props) {
  const { points, step_seconds, now, workflow } = statistics;
  const chosen = metrics.workflows.filter((each) => workflow === null || each.workflow === workflow);
  // The server counts the queue of a workflow up to 1,000 jobs, and samples longer queues once a minute.
  const sampled = latest(recent.points, (point) => point.queued);
  const delayed = chosen.reduce((total, each) => total + each.delayed, 0);
  const running = chosen.reduce((total, each) => total + each.leased + each.waiting, 0);
  const failed = failedShare(points);
  const wait = worst(points, (point) => point.wait_p95_seconds);
  const idle = idleShare(points);
  const busyWorkers = latest(recent.points, (point) => point.busy_workers);
  const idleWorkers = latest(recent.points, (point) => point.idle_workers);
  const tokens = latest(recent.points, (point) => point.tokens_held);
  const online = busyWorkers === null || idleWorkers === null ? null : busyWorkers + idleWorkers;
  const ofWorkflow = { workflow: workflow ?? undefined };
  const inRange = { ...ofWorkflow, from: startOf(SPANS[statistics.range], new Date(now)) };
  return (
    <div className="grid grid-cols-2 gap-4 lg:grid-cols-3 xl:grid-cols-6">
      <Stat
        label={operateTexts.waiting}
        value={
          <FigureLink isWhole to="/operate/jobs" search={{ ...ofWorkflow, status: "queued" }} label={links.queued}>
            {queuedText(chosen, sampled)}
          </FigureLink>
        }
        hint={
          <>
            <FigureLink
              to="/operate/jobs"
              search={{ ...ofWorkflow, status: "running" }}
              label={links.running}
            >{`${operateTexts.running}: ${compact.format(running)}`}</FigureLink>
            {delayed > 0 && `, ${operateTexts.delayed(compact.format(delayed))}`}
          </>
        }
      />
      <Stat
        label={operateTexts.perMinute}
        value={
          <FigureLink isWhole to="/operate/jobs" search={{ ...inRange, status: "completed" }} label={links.completed}>
            {compact.format(perMinute(points, step_seconds, new Date(now)))}
          </FigureLink>
        }
      />
      <Stat label={operateTexts.waitP95} value={wait === null ? "–" : duration(wait)} />
      <Stat
        label={operateTexts.failed}
        value={
          failed === null ? (
            "–"
          ) : (
            <FigureLink isWhole to="/operate/jobs" search={{ ...inRange, status: "failed" }} label={links.failed}>
              {percent(failed)}
            </FigureLink>
          )
        }
      />
      <Stat
        label={operateTexts.busy}
        value={
          online ? (
            <FigureLink isWhole to="/operate/workers" search={{ view: "busy" }} label={links.busy}>
              {operateTexts.busyOf(compact.format(Math.round(busyWorkers ?? 0)), compact.format(Math.ceil(online)))}
            </FigureLink>
          ) : (
            "–"
          )
        }
        hint={
          online === 0 ? (
            <FigureLink to="/operate/workers" search={{ view: "all" }} label={links.allWorkers}>
              {operateTexts.noWorkers}
            </FigureLink>
          ) : idle === null ? undefined : (
            <FigureLink
              to="/operate/workers"
              search={{ view: "idle" }}
              label={links.idle}
            >{`${operateTexts.engineIdle}: ${percent(idle)}`}</FigureLink>
          )
        }
      />
      <Stat
        label={operateTexts.tokensHeld}
        value={
          tokens === null ? (
            "–"
          ) : (
            <FigureLink isWhole to="/operate/jobs" search={{ status: "active" }} label={links.held}>
              {compact.format(tokens)}
            </FigureLink>
          )
        }
      />
    </div>
  );
}
