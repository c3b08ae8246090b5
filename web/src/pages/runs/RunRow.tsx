import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/types";
import { Badge, formatNumber, formatTokens, Progress, Time } from "@/design";
import { CandidateThumb } from "@/parts/CandidateThumb";
import { needsUser, percentOf, toneOf } from "@/parts/run/state";
import { runsTexts, runTexts } from "@/texts/runs";

type Run = Schemas["RunItem"];

export function RunRow({ run }: { run: Run }) {
  return (
    <li className="transition-colors duration-100 hover:bg-hover">
      <Link
        to="/runs/$id"
        params={{ id: run.id }}
        preload={false}
        className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-6 gap-y-3 px-4 py-3.5 focus-visible:outline-offset-[-2px] lg:grid-cols-[minmax(0,1.4fr)_176px_minmax(180px,1fr)_minmax(120px,auto)]"
      >
        <span className="min-w-0">
          <span className="block truncate font-[550]">{run.name}</span>
          <span className="block truncate text-s text-muted">{run.pipeline_name}</span>
        </span>
        <Winners run={run} />
        <span className="grid min-w-0 gap-1.5 max-lg:col-span-2">
          <span className="num flex justify-between gap-3 text-s text-muted">
            <span>{runsTexts.finished(run.leaves, run.target_leaves)}</span>
            <span>{runsTexts.spent(formatNumber(run.spent), formatNumber(run.budget))}</span>
          </span>
          <Progress percent={percentOf(run)} label={runsTexts.progressOf(run.name)} />
        </span>
        <span
          className="grid justify-items-start gap-1 max-lg:col-span-2 max-lg:flex max-lg:items-center max-lg:justify-between lg:justify-items-end"
          title={formatTokens(run.spent)}
        >
          <Badge tone={toneOf(run)}>{needsUser(run) ? runTexts.waits : runTexts.status[run.status]}</Badge>
          <Time at={run.updated_at} className="text-xs whitespace-nowrap text-muted" />
        </span>
      </Link>
    </li>
  );
}

function Winners({ run }: { run: Run }) {
  if (!run.winners?.length) return <span className="text-s text-muted max-sm:hidden">{runsTexts.noWinners}</span>;
  return (
    <span className="flex gap-1" role="group" aria-label={runsTexts.winnersOf(run.name)}>
      {run.winners.map((winner, place) => (
        <CandidateThumb
          key={winner.id}
          candidate={winner}
          alt={runTexts.image(winner.number)}
          className={`h-10 w-10 rounded-s border ${place > 1 ? "max-sm:hidden" : ""}`}
        />
      ))}
    </span>
  );
}
