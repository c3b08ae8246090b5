import { useNavigate } from "@tanstack/react-router";
import { X } from "lucide-react";
import { Button, type Choice, Select } from "@/design";
import { type AllJobsSearch, isFiltered } from "@/parts/job/all-jobs-filters";
import { SearchField } from "@/parts/SearchField";
import { allJobsTexts } from "@/texts/all-jobs";
import { jobsTexts } from "@/texts/jobs";
import { StatusTabs } from "./StatusTabs";
import { TimeRange } from "./TimeRange";
import { ANY, useChoices } from "./useChoices";

// Two fields per line on a phone.
const GROWING = "w-auto! min-w-32 max-sm:max-w-none! max-sm:basis-[calc(50%-0.25rem)] max-sm:grow";
const SIZE = `${GROWING} max-w-48`;
// Two times side by side.
const WIDE = `${GROWING} max-w-68`;
const KINDS: readonly Choice[] = [
  { value: ANY, label: allJobsTexts.anyKind },
  ...Object.entries(jobsTexts.kinds).map(([value, label]) => ({ value, label })),
];

/** Filters of the list. Their state is the URL. */
export function FilterBar({ search }: { search: AllJobsSearch }) {
  const navigate = useNavigate({ from: "/operate/jobs" });
  const choices = useChoices(search);
  const change = (part: Partial<AllJobsSearch>) =>
    void navigate({ search: (now) => ({ ...now, ...part }), replace: true });
  const picked = (value: string) => (value === ANY ? undefined : value);
  return (
    <div className="mb-4 grid gap-3">
      <StatusTabs search={search} onChange={(status) => change({ status })} />
      <div className="flex flex-wrap items-center gap-2">
        <SearchField
          label={allJobsTexts.search}
          value={search.q ?? ""}
          onChange={(q) => change({ q: q || undefined })}
        />
        <Select
          label={allJobsTexts.workflowLabel}
          className={SIZE}
          value={search.workflow ?? ANY}
          choices={choices.workflows}
          onChange={(value) => change({ workflow: picked(value) })}
        />
        <Select
          label={allJobsTexts.tenantLabel}
          className={SIZE}
          value={search.tenant ?? ANY}
          choices={choices.tenants}
          onChange={(value) => change({ tenant: picked(value) })}
        />
        <Select
          label={allJobsTexts.workerLabel}
          className={SIZE}
          value={search.worker ?? ANY}
          choices={choices.workers}
          onChange={(value) => change({ worker: picked(value) })}
        />
        <Select
          label={allJobsTexts.kindLabel}
          className={SIZE}
          value={search.kind ?? ANY}
          choices={KINDS}
          onChange={(value) => change({ kind: picked(value) })}
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
          <Button look="quiet" className="max-sm:w-full" onClick={() => void navigate({ search: {}, replace: true })}>
            {allJobsTexts.clear}
          </Button>
        )}
      </div>
    </div>
  );
}
