import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { Button } from "@/design";
import type { AllJobsSearch } from "@/parts/job/all-jobs-filters";
import type { Selection } from "@/parts/useSelection";
import { allJobsTexts } from "@/texts/all-jobs";
import { AllJobsRow, GRID, rowHeight } from "./AllJobsRow";
import type { OperatedJob } from "./actions";
import { useIsNarrow } from "./useIsNarrow";

interface Props {
  jobs: readonly OperatedJob[];
  query: {
    hasNextPage: boolean;
    isFetchingNextPage: boolean;
    isFetchNextPageError: boolean;
    isPlaceholderData: boolean;
    fetchNextPage: () => unknown;
  };
  selection: Selection<OperatedJob>;
  search: AllJobsSearch;
  maySelect: boolean;
  /** Receives the ids of the visible rows after a change. */
  onVisible: (ids: readonly string[]) => void;
}
// Fetch the next page when this many rows are left.
const AHEAD = 30;
const MAX_VISIBLE = 60;
const numbers = new Intl.NumberFormat("en");

/** Renders only the visible rows, however long the list is. */
export function AllJobsList({ jobs, query, selection, search, maySelect, onVisible }: Props) {
  const list = useRef<HTMLUListElement>(null);
  const height = rowHeight(useIsNarrow());
  const [top, setTop] = useState(0);
  // The content above the list may take another line.
  useLayoutEffect(() => {
    const now = list.current ? Math.round(list.current.getBoundingClientRect().top + window.scrollY) : 0;
    if (now !== top) setTop(now);
  });
  const virtual = useWindowVirtualizer({
    count: jobs.length,
    estimateSize: () => height,
    overscan: 6,
    scrollMargin: top,
    getItemKey: (index) => jobs[index]?.id ?? index,
  });
  useEffect(() => {
    virtual.measure();
  }, [virtual, height]);
  const rows = virtual.getVirtualItems();
  const last = rows.at(-1)?.index ?? 0;
  const { hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage } = query;
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage && !isFetchNextPageError && last >= jobs.length - AHEAD)
      void fetchNextPage();
  }, [last, jobs.length, hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage]);
  const seen = rows
    .slice(0, MAX_VISIBLE)
    .map((row) => jobs[row.index]?.id ?? "")
    .join(" ");
  useEffect(() => {
    // While the user scrolls, the page requests nothing.
    const timer = setTimeout(() => onVisible(seen === "" ? [] : seen.split(" ")), 300);
    return () => clearTimeout(timer);
  }, [seen, onVisible]);
  return (
    <>
      <div
        aria-hidden
        className={`${GRID} px-4 pb-2 text-s font-medium text-muted max-lg:hidden ${maySelect ? "pl-12" : ""}`}
      >
        <span>{allJobsTexts.columns.job}</span>
        <span>{allJobsTexts.columns.owner}</span>
        <span className="max-xl:hidden">{allJobsTexts.columns.workflow}</span>
        <span className="text-right max-xl:hidden">{allJobsTexts.columns.cost}</span>
        <span className="text-right">{allJobsTexts.columns.time}</span>
      </div>
      <ul
        ref={list}
        aria-label={allJobsTexts.list}
        aria-busy={query.isPlaceholderData}
        className={`panel relative overflow-hidden transition-opacity duration-100 ${query.isPlaceholderData ? "opacity-60" : ""}`}
        style={{ height: virtual.getTotalSize() + 2 }}
      >
        {rows.map((row) => {
          const job = jobs[row.index];
          if (job === undefined) return null;
          return (
            <AllJobsRow
              key={row.key}
              job={job}
              index={row.index}
              count={hasNextPage ? -1 : jobs.length}
              offset={row.start - top}
              height={height}
              search={search}
              isSelected={selection.ids.has(job.id)}
              onToggle={maySelect ? selection.toggle : null}
            />
          );
        })}
      </ul>
      <div className="flex min-h-12 items-center justify-center gap-3 text-s text-muted" role="status">
        {isFetchNextPageError ? (
          <>
            {allJobsTexts.loadFailed}
            <Button size="s" onClick={() => void fetchNextPage()}>
              {allJobsTexts.tryAgain}
            </Button>
          </>
        ) : isFetchingNextPage ? (
          jobs.length === 0 ? (
            allJobsTexts.lookingFurther
          ) : (
            allJobsTexts.loadingMore
          )
        ) : (
          !hasNextPage && jobs.length > 20 && allJobsTexts.end(numbers.format(jobs.length))
        )}
      </div>
    </>
  );
}
