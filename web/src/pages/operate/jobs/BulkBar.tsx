import { useQuery } from "@tanstack/react-query";
import { ArrowUpDown, CircleSlash, RotateCcw } from "lucide-react";
import { useState } from "react";
import { Button, formatNumber } from "@/design";
import { type AllJobsSearch, toFilter } from "@/parts/job/all-jobs-filters";
import { SelectionToolbar } from "@/parts/job/SelectionToolbar";
import type { Selection } from "@/parts/useSelection";
import { allJobsTexts } from "@/texts/all-jobs";
import { type ActionKind, KINDS, type OperatedJob, scopeOfRows, scopeOfTotals } from "./actions";
import { BulkDialog } from "./BulkDialog";
import { matchingQuery } from "./queries";

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
  const shown = formatNumber(chosen) + (isAll && totals?.is_partial ? "+" : "");
  const question = scopes.find(({ kind }) => kind === confirming);
  const hasMore = totals !== undefined && (totals.jobs > selection.jobs.length || totals.is_partial);
  return (
    <>
      <SelectionToolbar count={isAll ? allJobsTexts.all(shown) : allJobsTexts.selected(shown)} onClear={clear}>
        {!isAll && hasMore && (
          <Button look="quiet" className="text-accent!" onClick={() => setAll(true)}>
            {allJobsTexts.selectAll(formatNumber(totals.jobs) + (totals.is_partial ? "+" : ""))}
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
      </SelectionToolbar>
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
    </>
  );
}
