import type { ReactNode } from "react";
import { Button, Checkbox, classes, formatNumber } from "@/design";
import { type Pages, useVirtualRows } from "@/parts/useVirtualRows";
import { jobsTexts as texts } from "@/texts/jobs";

// Fetch the next page when this many rows are left.
const AHEAD = 30;
const OVERSCAN = 10;
// Height of the bars that cover the top and the bottom of the list.
const BARS = 80;
// A shorter list needs no sentence about its end.
const MANY = 20;

export function useJobRows(jobs: readonly { id: string }[], query: Pages, height: number) {
  const virtual = useVirtualRows<HTMLUListElement>({
    count: jobs.length,
    height,
    keyOf: (index) => jobs[index]?.id ?? index,
    overscan: OVERSCAN,
    bars: BARS,
    query,
    ahead: AHEAD,
  });
  return { ...virtual, query };
}

/** Place of a row in the list. */
export interface RowPlace {
  index: number;
  /** Number of rows; -1 if there are more pages. */
  count: number;
  /** Distance from the top of the list. */
  offset: number;
}

interface Props<Row> {
  jobs: readonly Row[];
  virtual: ReturnType<typeof useJobRows>;
  /** Replaces "Loading more" while the list is empty. */
  searching?: string;
  children: (job: Row, place: RowPlace) => ReactNode;
}

/** Renders only the visible rows, and says below them whether there are more. */
export function VirtualJobList<Row>({ jobs, virtual, searching, children }: Props<Row>) {
  const { query } = virtual;
  return (
    <>
      <ul
        ref={virtual.list}
        aria-label={texts.list}
        aria-busy={query.isPlaceholderData}
        className={`panel relative overflow-hidden transition-opacity duration-100 ${query.isPlaceholderData ? "opacity-60" : ""}`}
        style={{ height: virtual.height + 2 }}
      >
        {virtual.rows.map(({ index, offset }) => {
          const job = jobs[index];
          return job && children(job, { index, count: query.hasNextPage ? -1 : jobs.length, offset });
        })}
      </ul>
      <div className="flex min-h-12 items-center justify-center gap-3 text-s text-muted" role="status">
        {query.isFetchNextPageError ? (
          <>
            {texts.loadFailed}
            <Button size="s" onClick={() => void query.fetchNextPage()}>
              {texts.retry}
            </Button>
          </>
        ) : query.isFetchingNextPage ? (
          jobs.length === 0 && searching ? (
            searching
          ) : (
            texts.loadingMore
          )
        ) : (
          !query.hasNextPage && jobs.length > MANY && texts.end(formatNumber(jobs.length))
        )}
      </div>
    </>
  );
}

interface RowProps {
  place: RowPlace;
  height: number;
  isSelected: boolean;
  children: ReactNode;
}

export function VirtualRow({ place: { index, count, offset }, height, isSelected, children }: RowProps) {
  return (
    <li
      data-index={index}
      aria-posinset={index + 1}
      aria-setsize={count}
      style={{ height, transform: `translateY(${offset}px)` }}
      className={classes(
        "group absolute inset-x-0 top-0 flex border-t transition-colors duration-100",
        index === 0 && "border-t-transparent",
        isSelected ? "bg-accent-soft" : "hover:bg-hover",
      )}
    >
      {children}
    </li>
  );
}

interface BoxProps {
  name: string;
  isSelected: boolean;
  onToggle: () => void;
  className?: string | false;
}

/** The box that selects a row. */
export function RowBox({ name, isSelected, onToggle, className }: BoxProps) {
  return (
    <label className={classes("grid w-10 shrink-0 cursor-pointer touch:w-11 place-items-center", className)}>
      <Checkbox checked={isSelected} onChange={onToggle} aria-label={texts.select(name)} />
    </label>
  );
}
