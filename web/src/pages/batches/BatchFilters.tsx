import { useQuery } from "@tanstack/react-query";
import { effectsQuery } from "@/api/queries";
import { Segments } from "@/design";
import { ChoiceFilter } from "@/parts/ChoiceFilter";
import { SearchField } from "@/parts/SearchField";
import { batchesTexts as texts } from "@/texts/batches";
import { BATCH_STATUSES, type BatchesSearch } from "./filters";

interface Props {
  search: BatchesSearch;
  onChange: (search: BatchesSearch) => void;
}

export function BatchFilters({ search, onChange }: Props) {
  const { data: effects = [] } = useQuery(effectsQuery());
  return (
    <div className="mb-4 flex flex-wrap items-center gap-3">
      <Segments
        label={texts.statusLabel}
        value={search.status ?? "all"}
        choices={(["all", ...BATCH_STATUSES] as const).map((value) => ({ value, label: texts.statuses[value] }))}
        onChange={(value) => onChange({ ...search, status: value === "all" ? undefined : value })}
      />
      <ChoiceFilter
        label={texts.effect}
        any={texts.allEffects}
        className="w-56 max-sm:w-full"
        value={search.effect}
        choices={effects.map(({ slug, name }) => ({ value: slug, label: name }))}
        onChange={(effect) => onChange({ ...search, effect })}
      />
      <SearchField
        label={texts.reference}
        value={search.reference ?? ""}
        onChange={(reference) => onChange({ ...search, reference: reference || undefined })}
      />
    </div>
  );
}
