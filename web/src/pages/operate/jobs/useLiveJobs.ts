// Keeps the list up to date without a full refetch: visible rows change in place, new rows are announced.
import { type InfiniteData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo } from "react";
import { keys } from "@/api/keys";
import type { AllJobsSearch } from "@/parts/job/all-jobs-filters";
import { prepended } from "@/parts/live-pages";
import type { OperatedJob } from "./actions";
import { allJobsQuery, jobRowsQuery, newestJobsQuery, PAGE_SIZE } from "./queries";

type Pages = InfiniteData<{ items: OperatedJob[]; next_cursor?: string | null }>;

export interface LiveJobs {
  /** Matching jobs that the list does not show yet. */
  fresh: number;
  showFresh: () => void;
}

export function useLiveJobs(search: AllJobsSearch, visible: readonly string[]): LiveJobs {
  const client = useQueryClient();
  const { queryKey } = allJobsQuery(search);
  const key = JSON.stringify(queryKey);
  const newest = useQuery(newestJobsQuery(search)).data;
  const rows = useQuery(jobRowsQuery(visible)).data;

  const changed = rows?.items;
  useEffect(() => {
    if (!changed) return;
    const byId = new Map(changed.map((job) => [job.id, job]));
    client.setQueriesData<Pages>(
      { queryKey: keys.allTenantJobs({}).slice(0, 3) },
      (found) => found && { ...found, pages: found.pages.map((page) => replaced(page, byId)) },
    );
  }, [client, changed]);

  const listed = client.getQueryData<Pages>(queryKey)?.pages;
  const first = listed?.[0]?.items[0]?.id ?? "";
  const isListed = listed !== undefined;
  // Ids are ordered by time, so a greater id than that of the first row is newer.
  const fresh = useMemo(
    () => (isListed ? (newest?.items ?? []).filter((job) => job.id > first) : []),
    [isListed, newest, first],
  );
  const show = useCallback(() => {
    // Too many new rows to merge: reload from the start.
    if (fresh.length >= PAGE_SIZE) return void client.resetQueries({ queryKey: JSON.parse(key) as unknown[] });
    client.setQueryData<Pages>(JSON.parse(key) as unknown[], (found) => prepended(found, fresh));
  }, [client, fresh, key]);
  // An empty list has no scroll position to keep.
  useEffect(() => {
    if (first === "" && fresh.length > 0) show();
  }, [first, fresh, show]);

  const showFresh = useCallback(() => {
    window.scrollTo({ top: 0 });
    show();
  }, [show]);
  return { fresh: fresh.length, showFresh };
}

function replaced<Page extends { items: OperatedJob[] }>(page: Page, byId: ReadonlyMap<string, OperatedJob>): Page {
  if (!page.items.some((job) => byId.has(job.id))) return page;
  return { ...page, items: page.items.map((job) => byId.get(job.id) ?? job) };
}
