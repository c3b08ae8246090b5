import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { effectsQuery } from "@/api/queries";
import { PageHead } from "@/design/PageHead";
import { Skeleton } from "@/design/Skeleton";
import { categoriesOf, matches } from "@/parts/effects";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { useTitle } from "@/parts/useTitle";
import { effectTexts } from "@/texts/effects";
import { Categories } from "./Categories";
import { EffectCard } from "./EffectCard";
import { NoEffects } from "./NoEffects";
import type { EffectsSearch } from "./route";
import { SearchBox } from "./SearchBox";
import { useGridKeys } from "./useGridKeys";

// Waiting times change with the jobs of all users.
const REFRESH_MS = 20_000;
const SEEN_AT_ONCE = 8;

export function EffectsPage() {
  useTitle(effectTexts.title);
  const { q = "", category = "" } = useSearch({ from: "/framed/effects" });
  const navigate = useNavigate({ from: "/effects" });
  const effects = useQuery({ ...effectsQuery(), refetchInterval: REFRESH_MS });
  const onKeyDown = useGridKeys();
  const go = (search: EffectsSearch) => void navigate({ search, replace: true, resetScroll: false });
  const all = effects.data ?? [];
  const shown = all.filter((effect) => (category === "" || effect.category === category) && matches(effect, q));
  return (
    <>
      <PageHead title={effectTexts.title} text={effectTexts.text} />
      <div className="mb-6 flex flex-col gap-3 lg:flex-row lg:items-center">
        <SearchBox value={q} onChange={(next) => go({ q: next || undefined, category: category || undefined })} />
        {effects.isPending && <Skeleton className="my-1 h-8 touch:h-11 w-64 max-w-full rounded-full!" />}
        <Categories
          names={categoriesOf(all)}
          value={category}
          onChange={(next) => go({ q: q || undefined, category: next || undefined })}
        />
      </div>
      <p role="status" className="sr-only">
        {effects.isPending ? effectTexts.loading : effectTexts.count(shown.length)}
      </p>
      {effects.isError && <ProblemPanel error={effects.error} onRetry={() => void effects.refetch()} />}
      {effects.isPending ? (
        <Waiting />
      ) : shown.length > 0 ? (
        <div onKeyDown={onKeyDown} className="effect-grid">
          {shown.map((effect, index) => (
            <EffectCard key={effect.id} effect={effect} isFirst={index < SEEN_AT_ONCE} />
          ))}
        </div>
      ) : (
        !effects.isError && <NoEffects isFiltered={all.length > 0} search={q} onShowAll={() => go({})} />
      )}
    </>
  );
}

function Waiting() {
  return (
    <div className="effect-grid" aria-hidden="true">
      {Array.from({ length: SEEN_AT_ONCE }, (_, index) => (
        <div key={index}>
          <Skeleton className="aspect-[16/10] rounded-m!" />
          <Skeleton className="mt-3 h-4 w-2/3" />
          <Skeleton className="mt-2 h-3.5 w-1/2" />
        </div>
      ))}
    </div>
  );
}
