import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";

/** The parts of an infinite query that a list needs. */
export interface Pages {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  isFetchNextPageError: boolean;
  isPlaceholderData?: boolean;
  fetchNextPage: () => unknown;
}

interface Options {
  count: number;
  /** false: the size of the list is not known yet. */
  isReady?: boolean;
  /** Height of a row. */
  height: number;
  keyOf?: (index: number) => string | number;
  overscan: number;
  /** Height of the bars that cover the top and the bottom of the list. */
  bars?: number;
  query: Pages;
  /** Fetch the next page when this many rows are left. */
  ahead: number;
}

/** The visible rows of a list that scrolls with the page, however long the list is. */
export function useVirtualRows<List extends HTMLElement>(options: Options) {
  const { count, isReady = true, height, keyOf = (index) => index, overscan, bars = 0, query, ahead } = options;
  const list = useRef<List>(null);
  const [top, setTop] = useState(0);
  // The content above the list may take another line.
  useLayoutEffect(() => {
    const now = list.current ? Math.round(list.current.getBoundingClientRect().top + window.scrollY) : 0;
    if (now !== top) setTop(now);
  });
  const virtual = useWindowVirtualizer({
    count,
    estimateSize: () => height,
    overscan,
    scrollMargin: top,
    scrollPaddingStart: bars,
    scrollPaddingEnd: bars,
    getItemKey: keyOf,
  });
  useEffect(() => {
    virtual.measure();
  }, [virtual, height]);
  const rows = virtual.getVirtualItems();
  const last = rows.at(-1)?.index ?? 0;
  const { hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage } = query;
  useEffect(() => {
    if (isReady && hasNextPage && !isFetchingNextPage && !isFetchNextPageError && last >= count - ahead)
      void fetchNextPage();
  }, [last, count, ahead, isReady, hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage]);
  return {
    list,
    rows: rows.map((row) => ({ index: row.index, key: row.key, offset: row.start - top })),
    height: virtual.getTotalSize(),
    scrollTo: (index: number) => virtual.scrollToIndex(index, { align: "auto" }),
  };
}
