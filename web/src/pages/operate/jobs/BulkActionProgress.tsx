import { useQuery } from "@tanstack/react-query";
import { Square } from "lucide-react";
import { meQuery } from "@/api/queries";
import { Badge, Button, formatNumber, Progress, Time, type Tone } from "@/design";
import { allJobsTexts } from "@/texts/all-jobs";
import { type BulkAction, percentOf } from "./actions";
import { useStopAction } from "./useBulkAction";

const TONES: Record<BulkAction["state"], Tone> = { running: "run", stopped: "warn", completed: "ok" };

/** One bulk action: what it does, its progress, its refusals, and a button that stops it. */
export function BulkActionProgress({ action }: { action: BulkAction }) {
  const { data: me } = useQuery(meQuery);
  const stop = useStopAction();
  const what = action.priority == null ? allJobsTexts.kinds[action.action] : allJobsTexts.toPriority(action.priority);
  return (
    <div className="grid gap-2.5">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1.5">
        <Badge tone={TONES[action.state]}>{allJobsTexts.states[action.state]}</Badge>
        <span className="font-[550]">{what}</span>
        <span className="text-s text-muted max-sm:order-last max-sm:basis-full">
          {allJobsTexts.by(action.created_by_email ?? allJobsTexts.deletedUser)}, <Time at={action.created_at} />
          {action.state === "stopped" &&
            `. ${allJobsTexts.stoppedBy(action.stopped_by_email ?? allJobsTexts.deletedUser)}`}
        </span>
        {action.state === "running" && me?.role === "operator" && (
          <Button
            size="s"
            className="ml-auto"
            busy={stop.isPending}
            onClick={() => stop.mutate(action.id)}
            aria-label={allJobsTexts.stopOf(what)}
            icon={<Square size={13} aria-hidden />}
          >
            {allJobsTexts.stop}
          </Button>
        )}
      </div>
      {action.state !== "completed" && <Progress percent={percentOf(action)} label={allJobsTexts.progress(what)} />}
      <p className="num flex flex-wrap gap-x-4 gap-y-0.5 text-s text-muted" role="status">
        <span>
          {percentOf(action) === null
            ? allJobsTexts.finding(formatNumber(action.total))
            : allJobsTexts.counts(formatNumber(action.done), formatNumber(action.total))}
        </span>
        {action.refused > 0 && <span>{allJobsTexts.refused(formatNumber(action.refused))}</span>}
        {action.untouched > 0 && action.state !== "running" && (
          <span>{allJobsTexts.untouched(formatNumber(action.untouched))}</span>
        )}
      </p>
      {action.refusals.length > 0 && (
        <ul className="grid gap-1 text-s">
          {action.refusals.map((refusal) => (
            <li key={refusal.code} className="flex gap-2">
              <span className="num shrink-0 text-muted">{formatNumber(refusal.jobs)} ×</span>
              <span className="min-w-0 break-words">{refusal.example}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
