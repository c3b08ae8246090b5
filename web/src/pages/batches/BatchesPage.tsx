import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Layers } from "lucide-react";
import { Button, Empty, PageHead } from "@/design";
import { LinkButton } from "@/parts/LinkButton";
import { MoreButton } from "@/parts/MoreButton";
import { Pending } from "@/parts/Pending";
import { TextWithCode } from "@/parts/TextWithCode";
import { useTitle } from "@/parts/useTitle";
import { batchesTexts as texts } from "@/texts/batches";
import { BatchFilters } from "./BatchFilters";
import { BatchRow } from "./BatchRow";
import { isFiltered } from "./filters";
import { batchesQuery } from "./queries";
import { useLiveBatches } from "./useLiveBatches";

export function BatchesPage() {
  useTitle(texts.title);
  useLiveBatches();
  const search = useSearch({ from: "/framed/batches" });
  const navigate = useNavigate({ from: "/batches" });
  const query = useInfiniteQuery(batchesQuery(search));
  const batches = query.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <>
      <PageHead title={texts.title} text={texts.text} />
      <BatchFilters search={search} onChange={(next) => void navigate({ search: next, replace: true })} />
      {query.data === undefined ? (
        <Pending query={query} className="h-64" />
      ) : batches.length > 0 ? (
        <div className="grid gap-4">
          <ul className="panel divide-y overflow-hidden" aria-label={texts.title} aria-busy={query.isPlaceholderData}>
            {batches.map((batch) => (
              <BatchRow key={batch.id} batch={batch} />
            ))}
          </ul>
          <MoreButton query={query} />
        </div>
      ) : isFiltered(search) ? (
        <Empty
          icon={<Layers size={20} />}
          title={texts.noneFound}
          text={texts.noneFoundText}
          action={<Button onClick={() => void navigate({ search: {}, replace: true })}>{texts.clear}</Button>}
        />
      ) : (
        <Empty
          icon={<Layers size={20} />}
          title={texts.none}
          text={<TextWithCode text={texts.noneText} />}
          action={
            <LinkButton look="go" to="/effects">
              {texts.toEffects}
            </LinkButton>
          }
        />
      )}
    </>
  );
}
