import { useQuery } from "@tanstack/react-query";
import { Segments } from "@/design";
import { ChoiceFilter } from "@/parts/ChoiceFilter";
import { runsTexts } from "@/texts/runs";
import { RUN_STATUSES, type RunsSearch } from "./filters";
import { pipelineNamesQuery } from "./queries";

export function RunFilters({ search, onChange }: { search: RunsSearch; onChange: (search: RunsSearch) => void }) {
  const { data: pipelines = [] } = useQuery(pipelineNamesQuery);
  return (
    <div className="mb-4 flex flex-wrap items-center gap-3">
      <Segments
        label={runsTexts.statusLabel}
        value={search.status ?? "all"}
        choices={(["all", ...RUN_STATUSES] as const).map((value) => ({ value, label: runsTexts.statuses[value] }))}
        onChange={(value) => onChange({ ...search, status: value === "all" ? undefined : value })}
      />
      <ChoiceFilter
        label={runsTexts.pipeline}
        any={runsTexts.allPipelines}
        className="w-56 max-sm:w-full"
        value={search.pipeline}
        choices={pipelines.map(({ slug, name }) => ({ value: slug, label: name }))}
        onChange={(pipeline) => onChange({ ...search, pipeline })}
      />
    </div>
  );
}
