import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import type { JobSummary } from "@/api/types";
import { Button } from "@/design";
import type { Selection } from "@/parts/useSelection";
import { jobsTexts } from "@/texts/jobs";
import { JobRow, ROW_HEIGHT } from "./JobRow";
import { useListKeys } from "./useListKeys";

interface Props {
  jobs: readonly JobSummary[];
  query: {
    hasNextPage: boolean;
    isFetchingNextPage: boolean;
    isFetchNextPageError: boolean;
    isPlaceholderData: boolean;
    fetchNextPage: () => unknown;
  };
  selection: Selection<JobSummary>;
}
// Fetch the next page when this many rows are left.
const AHEAD = 30;
// Height of the bars that cover the top and the bottom of the list.
const BARS = 80;
const numbers = new Intl.NumberFormat("en");

/** Renders only the visible rows, however long the list is. */
export function JobList({ jobs, query, selection }: Props) {
  const list = useRef<HTMLUListElement>(null);
  const [top, setTop] = useState(0);
  // The filters above may take another line.
  useLayoutEffect(() => {
    const now = list.current ? Math.round(list.current.getBoundingClientRect().top + window.scrollY) : 0;
    if (now !== top) setTop(now);
  });
  const virtual = useWindowVirtualizer({
    count: jobs.length,
    estimateSize: () => ROW_HEIGHT,
    overscan: 10,
    scrollMargin: top,
    scrollPaddingStart: BARS,
    scrollPaddingEnd: BARS,
    getItemKey: (index) => jobs[index]?.id ?? index,
  });
  const rows = virtual.getVirtualItems();
  const last = rows.at(-1)?.index ?? 0;
  const { hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage } = query;
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage && !isFetchNextPageError && last >= jobs.length - AHEAD)
      void fetchNextPage();
  }, [last, jobs.length, hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage]);
  useListKeys({
    jobs,
    list,
    scrollTo: (index) => virtual.scrollToIndex(index, { align: "auto" }),
    onToggle: selection.toggle,
    onClear: selection.clear,
  });
  return (
    <>
      <ul
        ref={list}
        aria-label={jobsTexts.list}
        aria-busy={query.isPlaceholderData}
        className={`panel relative overflow-hidden transition-opacity duration-100 ${query.isPlaceholderData ? "opacity-60" : ""}`}
        style={{ height: virtual.getTotalSize() + 2 }}
      >
        {rows.map((row) => {
          const job = jobs[row.index];
          if (job === undefined) return null;
          return (
            <JobRow
              key={row.key}
              job={job}
              index={row.index}
              count={hasNextPage ? -1 : jobs.length}
              offset={row.start - top}
              isSelected={selection.ids.has(job.id)}
              isSelecting={selection.isOn}
              onToggle={selection.toggle}
            />
          );
        })}
      </ul>
      <div className="flex min-h-12 items-center justify-center gap-3 text-s text-muted" role="status">
        {isFetchNextPageError ? (
          <>
            {jobsTexts.loadFailed}
            <Button size="s" onClick={() => void fetchNextPage()}>
              {jobsTexts.retry}
            </Button>
          </>
        ) : isFetchingNextPage ? (
          jobsTexts.loadingMore
        ) : (
          !hasNextPage && jobs.length > 20 && jobsTexts.end(numbers.format(jobs.length))
        )}
      </div>
    </>
  );
}
