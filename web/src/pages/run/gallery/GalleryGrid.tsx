import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { galleryTexts } from "@/texts/runs";
import type { Candidate, Run } from "../queries";
import { columnsFor } from "./columns";
import { GalleryCard } from "./GalleryCard";

interface Props {
  candidates: readonly Candidate[];
  steps: Run["steps"];
  selected: string | undefined;
  query: {
    hasNextPage: boolean;
    isFetchingNextPage: boolean;
    isFetchNextPageError: boolean;
    fetchNextPage: () => unknown;
  };
  onSelect: (id: string) => void;
}

const GAP = 12;
const CAPTION = 46;
const RATIO = 3 / 2;

/** Renders only the visible rows, however many candidates there are. */
export function GalleryGrid({ candidates, steps, selected, query, onSelect }: Props) {
  const list = useRef<HTMLDivElement>(null);
  const [{ top, width }, setBox] = useState({ top: 0, width: 0 });
  useLayoutEffect(() => {
    const element = list.current;
    if (!element) return;
    const measure = () => {
      const box = element.getBoundingClientRect();
      setBox((before) => {
        const now = { top: Math.round(box.top + window.scrollY), width: box.width };
        return before.top === now.top && before.width === now.width ? before : now;
      });
    };
    measure();
    const resized = new ResizeObserver(measure);
    resized.observe(element);
    return () => resized.disconnect();
  }, []);
  const columns = columnsFor(width);
  const cell = (width - (columns - 1) * GAP) / columns;
  const height = Math.max(1, cell / RATIO + CAPTION);
  const rows = Math.ceil(candidates.length / columns);
  const virtual = useWindowVirtualizer({
    count: width === 0 ? 0 : rows,
    estimateSize: () => height + GAP,
    overscan: 3,
    scrollMargin: top,
  });
  useEffect(() => {
    virtual.measure();
  }, [virtual, height]);
  const shown = virtual.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  const { hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage } = query;
  useEffect(() => {
    if (width > 0 && hasNextPage && !isFetchingNextPage && !isFetchNextPageError && last >= rows - 4)
      void fetchNextPage();
  }, [last, rows, width, hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage]);
  return (
    <div className="min-w-0">
      <div
        ref={list}
        role="list"
        aria-label={galleryTexts.list}
        className="relative"
        style={{ height: virtual.getTotalSize() }}
      >
        {shown.map((row) => (
          <div
            key={row.key}
            role="presentation"
            className="absolute inset-x-0 top-0 grid"
            style={{
              transform: `translateY(${row.start - top}px)`,
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
        {isFetchingNextPage ? galleryTexts.loading : ""}
      </p>
    </div>
  );
}
