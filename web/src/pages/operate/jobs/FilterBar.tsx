import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { Button } from "@/design";
import { ChoiceFilter } from "@/parts/ChoiceFilter";
import { type AllJobsSearch, countsOf, isFiltered } from "@/parts/job/all-jobs-filters";
import { StatusTabs } from "@/parts/job/StatusTabs";
import { SearchField } from "@/parts/SearchField";
import { allJobsTexts } from "@/texts/all-jobs";
import { jobsTexts } from "@/texts/jobs";
import { TenantFilter, useFilters, WorkerFilter, WorkflowFilter } from "./filters";
import { totalsQuery } from "./queries";
import { TimeRange } from "./TimeRange";

// Two fields per line on a phone.
const GROWING = "w-auto! min-w-32 max-sm:max-w-none! max-sm:basis-[calc(50%-0.25rem)] max-sm:grow";
const SIZE = `${GROWING} max-w-48`;
// Two times side by side.
const WIDE = `${GROWING} max-w-68`;
const KINDS = Object.entries(jobsTexts.kinds).map(([value, label]) => ({ value, label }));

/** Filters of the list. Their state is the URL. */
export function FilterBar({ search }: { search: AllJobsSearch }) {
  const { change, clear } = useFilters();
  const { data: totals } = useQuery(totalsQuery(search));
  const filter = { search, change, className: SIZE };
  return (
    <div className="mb-4 grid gap-3">
      <StatusTabs
        statuses={allJobsTexts.statuses}
        counts={totals ? countsOf(totals) : null}
        isPartial={totals?.is_partial}
        chosen={search.status}
        onChange={(status) => change({ status })}
      />
      <div className="flex flex-wrap items-center gap-2">
        <SearchField
          label={allJobsTexts.search}
          value={search.q ?? ""}
          onChange={(q) => change({ q: q || undefined })}
        />
        <WorkflowFilter {...filter} />
        <TenantFilter {...filter} />
        <WorkerFilter {...filter} />
        <ChoiceFilter
          label={allJobsTexts.kindLabel}
          any={allJobsTexts.anyKind}
          className={SIZE}
          value={search.kind}
          choices={KINDS}
          onChange={(kind) => change({ kind })}
        />
        <TimeRange className={WIDE} search={search} unset={allJobsTexts.anyTime} onChange={change} />
        {search.user && (
          <Button size="s" onClick={() => change({ user: undefined })} aria-label={allJobsTexts.clearUser}>
            {allJobsTexts.ofUser(`…${search.user.slice(-6)}`)}
            <X size={14} aria-hidden />
          </Button>
        )}
        {search.run && (
          <Button size="s" onClick={() => change({ run: undefined })} aria-label={allJobsTexts.clearRun}>
            {allJobsTexts.ofRun(`…${search.run.slice(-6)}`)}
            <X size={14} aria-hidden />
          </Button>
        )}
        {isFiltered(search) && (
          <Button look="quiet" className="max-sm:w-full" onClick={clear}>
            {allJobsTexts.clear}
          </Button>
        )}
      </div>
    </div>
  );
}
