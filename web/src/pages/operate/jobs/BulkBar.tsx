import { useQuery } from "@tanstack/react-query";
import { ArrowUpDown, CircleSlash, RotateCcw, X } from "lucide-react";
import { useState } from "react";
import { Button } from "@/design";
import { type AllJobsSearch, toFilter } from "@/parts/job/all-jobs-filters";
import type { Selection } from "@/parts/useSelection";
import { allJobsTexts } from "@/texts/all-jobs";
import { type ActionKind, KINDS, type OperatedJob, scopeOfRows, scopeOfTotals } from "./actions";
import { BulkDialog } from "./BulkDialog";
import { matchingQuery } from "./queries";

const numbers = new Intl.NumberFormat("en");
const ICONS = { retry: RotateCcw, cancel: CircleSlash, set_priority: ArrowUpDown } satisfies Record<
  ActionKind,
  unknown
>;

/** Actions for the selected jobs, or for all jobs of the filter. An action that fits none is hidden. */
export function BulkBar({ search, selection }: { search: AllJobsSearch; selection: Selection<OperatedJob> }) {
  const [isAll, setAll] = useState(false);
  const [confirming, setConfirming] = useState<ActionKind | null>(null);
  const isOpen = selection.jobs.length > 0;
  const totals = useQuery(matchingQuery(search, isOpen)).data;
  if (!isOpen) return null;
  const clear = () => {
    setAll(false);
    setConfirming(null);
    selection.clear();
  };
  const scopes = KINDS.map((kind) => ({
    kind,
    scope: isAll && totals ? scopeOfTotals(kind, totals) : scopeOfRows(kind, selection.jobs),
  })).filter(({ scope }) => scope.jobs > 0);
  const chosen = isAll && totals ? totals.jobs : selection.jobs.length;
  const shown = numbers.format(chosen) + (isAll && totals?.is_partial ? "+" : "");
  const question = scopes.find(({ kind }) => kind === confirming);
  const hasMore = totals !== undefined && (totals.jobs > selection.jobs.length || totals.is_partial);
  return (
    <div className="pointer-events-none fixed inset-x-0 bottom-[calc(4.25rem+env(safe-area-inset-bottom))] z-20 flex justify-center px-3 md:bottom-6 md:left-56">
      <div
        role="toolbar"
        aria-label={allJobsTexts.selectionBar}
        className="appear pointer-events-auto flex max-w-full flex-wrap items-center justify-center gap-1 rounded-m border bg-panel p-1.5 shadow-high"
      >
        <span className="num px-2.5 font-[550]" role="status">
          {isAll ? allJobsTexts.all(shown) : allJobsTexts.selected(shown)}
        </span>
        {!isAll && hasMore && (
          <Button look="quiet" className="text-accent!" onClick={() => setAll(true)}>
            {allJobsTexts.selectAll(numbers.format(totals.jobs) + (totals.is_partial ? "+" : ""))}
          </Button>
        )}
        {scopes.map(({ kind }) => {
          const Icon = ICONS[kind];
          return (
            <Button key={kind} look="quiet" onClick={() => setConfirming(kind)} icon={<Icon size={16} aria-hidden />}>
              {allJobsTexts.actions[kind]}
            </Button>
          );
        })}
        {scopes.length === 0 && <span className="px-2 text-s text-muted">{allJobsTexts.noneFits}</span>}
        <Button
          look="quiet"
          size="icon"
          aria-label={allJobsTexts.clearSelection}
          onClick={clear}
          icon={<X size={18} aria-hidden />}
        />
      </div>
      {question && (
        <BulkDialog
          kind={question.kind}
          scope={question.scope}
          hasRest={question.scope.jobs < chosen}
          filter={() => (isAll ? toFilter(search) : { job_id: selection.jobs.map((job) => job.id) })}
          onClose={() => setConfirming(null)}
          onStarted={clear}
        />
      )}
    </div>
  );
}
