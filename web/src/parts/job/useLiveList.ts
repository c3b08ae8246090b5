// Keeps a list of jobs up to date without a full refetch: rows change in place, new rows are announced.
import { type InfiniteData, type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import { keys } from "@/api/keys";
import { changeListed, useCatchUp, useJobEvents } from "@/api/live";
import { hasStatus } from "@/api/problems";
import { isActive, type JobEvent, type JobSummary } from "@/api/types";
import { prepended } from "@/parts/live-pages";
import type { JobsSearch } from "./filters";
import { fetchPage, fetchSummary, PAGE_SIZE } from "./library";

type Pages = InfiniteData<{ items: JobSummary[]; next_cursor?: string | null }>;
const GATHER_MS = 300;
// Delay before rows far below are read. The newest page does not contain them.
const MAX_REFETCHED = 30;

export interface LiveList {
  /** Matching jobs that the list does not show yet. */
  fresh: number;
  showFresh: () => void;
}

export function useLiveList(search: JobsSearch): LiveList {
  const client = useQueryClient();
  const [news, setNews] = useState<JobSummary[]>([]);
  const latest = useRef(search);
  latest.current = search;

  const loaded = useCallback(
    () => (client.getQueryData<Pages>(keys.library({ ...latest.current }))?.pages ?? []).flatMap((page) => page.items),
    [client],
  );
  const prepend = useCallback(
    (jobs: JobSummary[]) => {
      const queryKey = keys.library({ ...latest.current });
      setNews([]);
      // Too many new rows to merge: reload from the start.
      if (jobs.length >= PAGE_SIZE) return void client.resetQueries({ queryKey });
      client.setQueryData<Pages>(queryKey, (found) => prepended(found, jobs));
    },
    [client],
  );
  /** The newest page contains the new rows and the state of the known ones. */
  const refresh = useCallback(
    async (isFirst: boolean) => {
      const filter = latest.current;
      const page = await fetchPage(filter, undefined).catch(() => null);
      const rows = loaded();
      if (page === null || filter !== latest.current) return;
      const known = new Set(rows.map((row) => row.id));
      for (const job of page.items) if (known.has(job.id)) changeListed(client, job.id, () => job);
      // Ids are ordered by time, so a greater id than that of the first row is newer.
      const found = page.items.filter((job) => !known.has(job.id) && job.id > (rows[0]?.id ?? ""));
      if (isFirst || rows.length === 0) prepend(found);
      else setNews(found);
    },
    [client, loaded, prepend],
  );
  const refreshRows = useCallback(
    async (ids: string[]) => {
      for (const id of ids.slice(0, MAX_REFETCHED)) {
        try {
          const job = await fetchSummary(id);
          changeListed(client, id, () => job);
        } catch (error) {
          if (hasStatus(error, 404)) forget(client, [id]);
        }
      }
    },
    [client],
  );

  // A user who returns to a cached list sees the current rows at once: there is no scroll position to keep yet.
  const key = JSON.stringify(search);
  useEffect(() => {
    setNews([]);
    if (loaded().length > 0) void refresh(true);
  }, [key, loaded, refresh]);

  const waiting = useRef(new Map<string, boolean>());
  useJobEvents(
    useCallback(
      (event: JobEvent) => {
        if (waiting.current.size === 0) {
          setTimeout(() => {
            const happened = [...waiting.current];
            waiting.current.clear();
            const rows = new Set(loaded().map((row) => row.id));
            if (happened.some(([id, isNew]) => isNew && !rows.has(id))) void refresh(false);
            void refreshRows(happened.map(([id]) => id).filter((id) => rows.has(id)));
          }, GATHER_MS);
        }
        waiting.current.set(event.job_id, waiting.current.get(event.job_id) || !event.from_status);
      },
      [loaded, refresh, refreshRows],
    ),
  );
  useCatchUp(
    useCallback(() => {
      void refresh(false);
      void refreshRows(
        loaded()
          .slice(PAGE_SIZE)
          .filter((row) => isActive(row.status))
          .map((row) => row.id),
      );
    }, [refresh, loaded, refreshRows]),
  );

  const showFresh = useCallback(() => {
    window.scrollTo({ top: 0 });
    prepend(news);
  }, [prepend, news]);
  return { fresh: news.length, showFresh };
}

/** Removes deleted jobs from every list. */
export function forget(client: QueryClient, ids: readonly string[]): void {
  const gone = new Set(ids);
  client.setQueriesData<Pages>({ queryKey: keys.libraries }, (found) => {
    if (!found) return found;
    return {
      ...found,
      pages: found.pages.map((page) => ({ ...page, items: page.items.filter((job) => !gone.has(job.id)) })),
    };
  });
  void client.invalidateQueries({ queryKey: keys.allCounts });
}
