import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ArrowLeft, ImageOff } from "lucide-react";
import { lazy, Suspense } from "react";
import { hasStatus } from "@/api/problems";
import { effectQuery } from "@/api/queries";
import { Empty, Segments, Skeleton } from "@/design";
import { kindName } from "@/parts/effects";
import { LinkButton } from "@/parts/LinkButton";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { useTitle } from "@/parts/useTitle";
import { effectPageTexts } from "@/texts/effect";
import { gridTexts } from "@/texts/grid";
import { EffectForm } from "./EffectForm";
import { Example } from "./Example";
import { earlierQuery, withoutFiles } from "./earlier";

const GridForm = lazy(() => import("./grid/GridForm").then((module) => ({ default: module.GridForm })));

// The waiting time before a submission is valid for a moment only.
const REFRESH_MS = 10_000;

export function EffectPage() {
  const { slug } = useParams({ from: "/framed/effects/$slug" });
  const { from, other_file: isOther, several: isGrid } = useSearch({ from: "/framed/effects/$slug" });
  const navigate = useNavigate({ from: "/effects/$slug" });
  const effect = useQuery({ ...effectQuery(slug), refetchInterval: REFRESH_MS });
  const earlier = useQuery(earlierQuery(useQueryClient(), effect.data, from));
  useTitle(effect.data?.name ?? slug);
  if (hasStatus(effect.error, 404)) {
    return (
      <Empty
        icon={<ImageOff size={20} />}
        title={effectPageTexts.notFound}
        text={effectPageTexts.notFoundText}
        action={<LinkButton to="/effects">{effectPageTexts.back}</LinkButton>}
      />
    );
  }
  if (effect.isError && effect.data === undefined)
    return <ProblemPanel error={effect.error} onRetry={() => void effect.refetch()} />;
  const isFilling = from !== undefined && earlier.isPending;
  return (
    <div className="grid items-start gap-6 lg:grid-cols-[minmax(0,1fr)_minmax(22rem,26rem)] lg:gap-8">
      <div className="grid gap-4 lg:sticky lg:top-16">
        <div>
          <Link
            to="/effects"
            className="mb-2 inline-flex min-h-8 items-center gap-1.5 text-s text-muted hover:text-text touch:min-h-11"
          >
            <ArrowLeft size={14} aria-hidden />
            {effectPageTexts.back}
          </Link>
          {effect.data ? (
            <>
              <h1 className="break-words">{effect.data.name}</h1>
              <p className="mt-1 text-muted">
                <span className="font-[550] text-text">{kindName(effect.data)}</span>
                {effect.data.description && <span className="whitespace-pre-line"> · {effect.data.description}</span>}
              </p>
            </>
          ) : (
            <>
              <Skeleton className="h-8 w-56" />
              <Skeleton className="mt-2 h-5 w-80 max-w-full" />
            </>
          )}
        </div>
        {effect.data ? <Example effect={effect.data} /> : <Skeleton className="aspect-video w-full rounded-m!" />}
      </div>
      {effect.data && !isFilling ? (
        <div className="grid min-w-0 gap-3">
          <Segments
            label={gridTexts.how}
            value={isGrid ? "several" : "one"}
            choices={[
              { value: "one", label: gridTexts.one },
              { value: "several", label: gridTexts.several },
            ]}
            onChange={(chosen) =>
              void navigate({
                search: (before) => ({ ...before, several: chosen === "several" ? true : undefined }),
                replace: true,
                resetScroll: false,
              })
            }
            className="w-full *:grow"
          />
          {isGrid ? (
            <Suspense fallback={<Skeleton className="h-96 rounded-m!" />}>
              <GridForm key={slug} effect={effect.data} />
            </Suspense>
          ) : (
            <EffectForm
              key={`${slug} ${from ?? ""} ${String(isOther)}`}
              effect={effect.data}
              from={from}
              isOther={isOther}
              earlier={earlier.data ? (isOther ? withoutFiles(earlier.data, effect.data) : earlier.data) : null}
              isEarlierGone={earlier.isError}
            />
          )}
        </div>
      ) : (
        <Skeleton className="h-96 rounded-m!" />
      )}
    </div>
  );
}
