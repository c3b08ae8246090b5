import { useInfiniteQuery } from "@tanstack/react-query";
import { ImageIcon } from "lucide-react";
import { useRef } from "react";
import { Empty, Segments } from "@/design";
import { ChoiceFilter } from "@/parts/ChoiceFilter";
import { Pending } from "@/parts/Pending";
import { type SteadyUrls, steady } from "@/parts/steady-urls";
import { galleryTexts } from "@/texts/runs";
import { CandidatePanel } from "../panel/CandidatePanel";
import { galleryQuery, type Run } from "../queries";
import type { RunSearch } from "../search";
import { GalleryGrid } from "./GalleryGrid";

interface Props {
  run: Run;
  search: RunSearch;
  onChange: (search: RunSearch) => void;
}

export function GalleryTab({ run, search, onChange }: Props) {
  const step = run.steps.some((each) => each.step.slug === search.step) ? search.step : undefined;
  const query = useInfiniteQuery(galleryQuery(run.id, { step, status: search.status }));
  const kept = useRef<SteadyUrls>(new Map());
  const candidates = (query.data?.pages.flatMap((page) => page.items) ?? []).map((each) => steady(kept.current, each));
  return (
    <div className="grid gap-4">
      <div className="flex flex-wrap items-center gap-3">
        <ChoiceFilter
          label={galleryTexts.stepLabel}
          any={galleryTexts.allSteps}
          className="w-56 max-sm:w-full"
          value={step}
          choices={run.steps.map((each) => ({
            value: each.step.slug,
            label: `${each.step.name} (${each.candidates})`,
          }))}
          onChange={(chosen) => onChange({ step: chosen })}
        />
        <Segments
          label={galleryTexts.statusLabel}
          value={search.status ?? "all"}
          choices={(["all", "active", "rejected"] as const).map((value) => ({
            value,
            label: galleryTexts.status[value],
          }))}
          onChange={(value) => onChange({ status: value === "all" ? undefined : value })}
        />
      </div>
      {!query.data ? (
        <Pending query={query} className="h-80" />
      ) : candidates.length === 0 ? (
        <Empty icon={<ImageIcon size={20} />} title={galleryTexts.none} text={galleryTexts.noneText} />
      ) : (
        <div className={search.candidate ? "grid items-start gap-4 lg:grid-cols-[minmax(0,1fr)_360px]" : "grid"}>
          <GalleryGrid
            candidates={candidates}
            steps={run.steps}
            selected={search.candidate}
            query={query}
            onSelect={(candidate) => onChange({ candidate })}
          />
          {search.candidate !== undefined && (
            <div className="lg:sticky lg:top-20 max-lg:order-first">
              <CandidatePanel
                key={search.candidate}
                run={run}
                id={search.candidate}
                onSelect={(candidate) => onChange({ candidate })}
              />
            </div>
          )}
        </div>
      )}
    </div>
  );
}
