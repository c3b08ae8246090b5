import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { X } from "lucide-react";
import { effectsQuery } from "@/api/queries";
import { Button } from "@/design";
import { ChoiceFilter } from "@/parts/ChoiceFilter";
import { countsOf, isFiltered, type JobsSearch } from "@/parts/job/filters";
import { countsQuery } from "@/parts/job/library";
import { StatusTabs } from "@/parts/job/StatusTabs";
import { SPANS } from "@/parts/job/statuses";
import { SearchField } from "@/parts/SearchField";
import { jobsTexts } from "@/texts/jobs";

// The fields are side by side, also on a phone.
const SIZE =
  "w-auto! min-w-28 max-sm:min-w-0! max-lg:max-w-none! max-lg:grow max-lg:basis-0 max-sm:gap-1! max-sm:px-2! max-sm:text-s!";
const KINDS = Object.entries(jobsTexts.kinds).map(([value, label]) => ({ value, label }));
const TIMES = SPANS.map((value) => ({ value, label: jobsTexts.times[value] }));

/** Filters of the list. Their state is the URL. */
export function FilterBar({ search }: { search: JobsSearch }) {
  const navigate = useNavigate({ from: "/jobs" });
  const effects = useQuery(effectsQuery());
  const { data: counts } = useQuery(countsQuery(search));
  const change = (part: Partial<JobsSearch>) =>
    void navigate({ search: (now) => ({ ...now, ...part }), replace: true });
  return (
    <div className="mb-4 grid gap-3">
      <StatusTabs
        statuses={jobsTexts.statuses}
        counts={counts ? countsOf(counts.by_status) : null}
        isPartial={counts?.is_partial}
        chosen={search.status}
        onChange={(status) => change({ status })}
      />
      <div className="flex flex-wrap items-center gap-2">
        <SearchField label={jobsTexts.search} value={search.q ?? ""} onChange={(q) => change({ q: q || undefined })} />
        <ChoiceFilter
          label={jobsTexts.effectLabel}
          any={jobsTexts.anyEffect}
          className={`max-w-48 ${SIZE}`}
          value={search.effect}
          choices={(effects.data ?? []).map((effect) => ({ value: effect.slug, label: effect.name }))}
          onChange={(effect) => change({ effect })}
        />
        <ChoiceFilter
          label={jobsTexts.kindLabel}
          any={jobsTexts.anyKind}
          className={SIZE}
          value={search.kind}
          choices={KINDS}
          onChange={(kind) => change({ kind })}
        />
        <ChoiceFilter
          label={jobsTexts.timeLabel}
          any={jobsTexts.times.any}
          className={SIZE}
          value={search.time}
          choices={TIMES}
          onChange={(time) => change({ time })}
        />
        {search.run && (
          <Button size="s" onClick={() => change({ run: undefined })} aria-label={jobsTexts.clearRun}>
            {jobsTexts.run(search.run)}
            <X size={14} aria-hidden />
          </Button>
        )}
        {isFiltered(search) && (
          <Button look="quiet" className="max-lg:w-full" onClick={() => void navigate({ search: {}, replace: true })}>
            {jobsTexts.clear}
          </Button>
        )}
      </div>
    </div>
  );
}
