import { useLayoutEffect, useState } from "react";
import { type Pages, useVirtualRows } from "@/parts/useVirtualRows";
import { galleryTexts } from "@/texts/runs";
import type { Candidate, Run } from "../queries";
import { columnsFor } from "./columns";
import { GalleryCard } from "./GalleryCard";

interface Props {
  candidates: readonly Candidate[];
  steps: Run["steps"];
  selected: string | undefined;
  query: Pages;
  onSelect: (id: string) => void;
}

const GAP = 12;
const CAPTION = 46;
const RATIO = 3 / 2;
// Fetch the next page when this many rows are left.
const AHEAD = 4;

/** Renders only the visible rows, however many candidates there are. */
export function GalleryGrid({ candidates, steps, selected, query, onSelect }: Props) {
  const [width, setWidth] = useState(0);
  const columns = columnsFor(width);
  const cell = (width - (columns - 1) * GAP) / columns;
  const height = Math.max(1, cell / RATIO + CAPTION);
  const { list, rows, ...virtual } = useVirtualRows<HTMLDivElement>({
    count: width === 0 ? 0 : Math.ceil(candidates.length / columns),
    isReady: width > 0,
    height: height + GAP,
    overscan: 3,
    query,
    ahead: AHEAD,
  });
  useLayoutEffect(() => {
    const element = list.current;
    if (!element) return;
    const measure = () => setWidth(element.getBoundingClientRect().width);
    measure();
    const resized = new ResizeObserver(measure);
    resized.observe(element);
    return () => resized.disconnect();
  }, [list]);
  return (
    <div className="min-w-0">
      <div
        ref={list}
        role="list"
        aria-label={galleryTexts.list}
        className="relative"
        style={{ height: virtual.height }}
      >
        {rows.map((row) => (
          <div
            key={row.key}
            role="presentation"
            className="absolute inset-x-0 top-0 grid"
            style={{
              transform: `translateY(${row.offset}px)`,
              gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))`,
              gap: GAP,
              height,
            }}
          >
            {candidates.slice(row.index * columns, (row.index + 1) * columns).map((candidate) => (
              <GalleryCard
                key={candidate.id}
                candidate={candidate}
                step={steps.find((each) => each.step.id === candidate.step_id)?.step.name ?? ""}
                isSelected={candidate.id === selected}
                onSelect={onSelect}
              />
            ))}
          </div>
        ))}
      </div>
      <p className="min-h-6 pt-2 text-center text-s text-muted" role="status">
        {query.isFetchingNextPage ? galleryTexts.loading : ""}
      </p>
    </div>
  );
}
