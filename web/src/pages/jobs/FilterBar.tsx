import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { X } from "lucide-react";
import { effectsQuery } from "@/api/queries";
import { Button, type Choice, Select } from "@/design";
import { isFiltered, type JobsSearch, TIME_FILTERS, type TimeFilter } from "@/parts/job/filters";
import { SearchField } from "@/parts/SearchField";
import { jobsTexts } from "@/texts/jobs";
import { StatusTabs } from "./StatusTabs";

const ANY = "any";
// The fields are side by side, also on a phone.
const SIZE =
  "w-auto! min-w-28 max-sm:min-w-0! max-lg:max-w-none! max-lg:grow max-lg:basis-0 max-sm:gap-1! max-sm:px-2! max-sm:text-s!";
const KINDS: readonly Choice[] = [
  { value: ANY, label: jobsTexts.anyKind },
  ...Object.entries(jobsTexts.kinds).map(([value, label]) => ({ value, label })),
];
const TIMES: readonly Choice<TimeFilter>[] = TIME_FILTERS.map((value) => ({ value, label: jobsTexts.times[value] }));

/** Filters of the list. Their state is the URL. */
export function FilterBar({ search }: { search: JobsSearch }) {
  const navigate = useNavigate({ from: "/jobs" });
  const effects = useQuery(effectsQuery());
  const change = (part: Partial<JobsSearch>) =>
    void navigate({ search: (now) => ({ ...now, ...part }), replace: true });
  const known: Choice[] = (effects.data ?? []).map((effect) => ({ value: effect.slug, label: effect.name }));
  // A link may still filter by an effect that is no longer sold.
  if (search.effect && !known.some((each) => each.value === search.effect))
    known.push({ value: search.effect, label: search.effect });
  return (
    <div className="mb-4 grid gap-3">
      <StatusTabs search={search} onChange={(status) => change({ status })} />
      <div className="flex flex-wrap items-center gap-2">
        <SearchField label={jobsTexts.search} value={search.q ?? ""} onChange={(q) => change({ q: q || undefined })} />
        <Select
          label={jobsTexts.effectLabel}
          className={`max-w-48 ${SIZE}`}
          value={search.effect ?? ANY}
          choices={[{ value: ANY, label: jobsTexts.anyEffect }, ...known]}
          onChange={(value) => change({ effect: value === ANY ? undefined : value })}
        />
        <Select
          label={jobsTexts.kindLabel}
          className={SIZE}
          value={search.kind ?? ANY}
          choices={KINDS}
          onChange={(value) => change({ kind: value === ANY ? undefined : value })}
        />
        <Select
          label={jobsTexts.timeLabel}
          className={SIZE}
          value={search.time ?? ANY}
          choices={TIMES}
          onChange={(value) => change({ time: value === "any" ? undefined : value })}
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
