import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Images, Plus } from "lucide-react";
import { useCallback } from "react";
import { Button, Empty, PageHead, Segments, Select } from "@/design";
import { Pending } from "@/parts/Pending";
import { SearchField } from "@/parts/SearchField";
import { useRole } from "@/parts/useRole";
import { useTitle } from "@/parts/useTitle";
import { EffectGrid } from "@/parts/workflow/EffectGrid";
import { type EffectRecord, effectRecordsQuery, workflowChoicesQuery } from "@/parts/workflow/queries";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import { CreateEffectDialog } from "./CreateEffectDialog";
import { EFFECT_VIEWS, type EffectsSearch, type EffectView } from "./route";

const ALL = "all";
const PREFIX = "=";

export function EffectRecordsPage() {
  useTitle(texts.title);
  const { view = "all", category, q = "", new: wanted } = useSearch({ from: "/framed/operator/operate/effects" });
  const navigate = useNavigate({ from: "/operate/effects" });
  const search = useCallback(
    (words: string) =>
      void navigate({ search: (now) => ({ ...now, q: words || undefined }), replace: true, resetScroll: false }),
    [navigate],
  );
  const effects = useQuery(effectRecordsQuery());
  const workflows = useQuery(workflowChoicesQuery);
  const { mayOperate: mayChange } = useRole();
  const change = (values: EffectsSearch) =>
    void navigate({ search: (now) => ({ ...now, ...values }), replace: true, resetScroll: false });
  const found = (effects.data ?? []).filter((each) => matches(each, view, category, q));
  const categories = [...new Set((effects.data ?? []).map((each) => each.category ?? ""))].sort((one, other) =>
    one.localeCompare(other),
  );
  const inactive = (workflows.data ?? []).filter((each) => !each.is_active).map((each) => each.slug);
  return (
    <>
      <PageHead
        title={texts.title}
        text={texts.text}
        actions={
          mayChange && (
            <Button look="go" icon={<Plus size={16} />} onClick={() => change({ new: "" })}>
              {texts.create}
            </Button>
          )
        }
      />
      <div className="mb-5 flex flex-wrap gap-2">
        <Segments
          label={texts.viewLabel}
          value={view}
          choices={EFFECT_VIEWS.map((value) => ({ value, label: texts.views[value] }))}
          onChange={(chosen) => change({ view: chosen === "all" ? undefined : chosen })}
        />
        <Select
          className="w-auto! min-w-40"
          label={texts.category}
          value={category === undefined ? ALL : PREFIX + category}
          choices={[
            { value: ALL, label: texts.allCategories },
            ...categories.map((name) => ({ value: PREFIX + name, label: name || texts.noCategory })),
          ]}
          onChange={(chosen) => change({ category: chosen === ALL ? undefined : chosen.slice(PREFIX.length) })}
        />
        <SearchField label={texts.search} value={q} onChange={search} className="w-full sm:w-64" />
      </div>
      {!effects.data ? (
        <Pending query={effects} className="h-64" />
      ) : found.length === 0 ? (
        <Empty
          icon={<Images size={20} />}
          title={effects.data.length === 0 ? texts.none : texts.noneFound}
          text={effects.data.length === 0 ? texts.noneText : texts.noneFoundText}
        />
      ) : (
        <EffectGrid effects={found} inactive={inactive} />
      )}
      {wanted !== undefined && mayChange && (
        <CreateEffectDialog key={wanted} workflow={wanted} onClose={() => change({ new: undefined })} />
      )}
    </>
  );
}

function matches(effect: EffectRecord, view: EffectView, category: string | undefined, q: string): boolean {
  if (view !== "all" && effect.is_published !== (view === "published")) return false;
  if (category !== undefined && (effect.category ?? "") !== category) return false;
  const text = `${effect.name} ${effect.slug} ${effect.workflow} ${effect.description}`.toLowerCase();
  return q
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
