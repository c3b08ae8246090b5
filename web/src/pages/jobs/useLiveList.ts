// Keeps a list of jobs as it is now, without asking for all of it again: rows change in place, new ones are counted.
import { useQueryClient, type InfiniteData } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import { keys } from "@/api/keys";
import { changeListed, useCatchUp, useJobEvents } from "@/api/live";
import { hasStatus } from "@/api/problems";
import { isActive, type JobEvent, type JobSummary } from "@/api/types";
import type { JobsSearch } from "./filters";
import { fetchPage, fetchSummary, PAGE_SIZE } from "./queries";

type Pages = InfiniteData<{ items: JobSummary[]; next_cursor?: string | null }>;
const GATHER_MS = 300;
// Of rows far below, which a page of news does not reach.
const MOST_ASKED = 30;

export interface LiveList {
  /** Jobs that match and are not in the list yet. */
  fresh: number;
  showFresh: () => void;
}

export function useLiveList(search: JobsSearch): LiveList {
  const client = useQueryClient();
  const [fresh, setFresh] = useState(0);
  const latest = useRef(search);
  latest.current = search;
  const key = JSON.stringify(search);
  useEffect(() => setFresh(0), [key]);

  const loaded = useCallback(
    () => (client.getQueryData<Pages>(keys.library({ ...latest.current }))?.pages ?? []).flatMap((page) => page.items),
    [client],
  );
  /** The newest page tells what is new, and how the rows that it has stand. */
  const look = useCallback(async () => {
    const asked = latest.current;
    const page = await fetchPage(asked, null).catch(() => null);
    if (page === null || asked !== latest.current) return;
    const rows = new Set(loaded().map((row) => row.id));
    const newest = loaded()[0]?.id ?? "";
    for (const job of page.items) if (rows.has(job.id)) changeListed(client, job.id, () => job);
    // Ids are in the order of time, so what is greater than the first row came after it.
    setFresh(page.items.filter((job) => !rows.has(job.id) && job.id > newest).length);
  }, [client, loaded]);

  const waiting = useRef(new Set<string>());
  const isNew = useRef(false);
  const onEvent = useCallback(
    (event: JobEvent) => {
      if (waiting.current.size === 0) {
        setTimeout(() => {
          const ids = [...waiting.current];
          waiting.current.clear();
          const rows = new Set(loaded().map((row) => row.id));
          if (isNew.current) void look();
          isNew.current = false;
          void refreshRows(ids.filter((id) => rows.has(id)));
        }, GATHER_MS);
      }
      waiting.current.add(event.job_id);
      isNew.current ||= !event.from_status;
    },
    [loaded, look],
  );
  const refreshRows = async (ids: string[]) => {
    for (const id of ids.slice(0, MOST_ASKED)) {
      try {
        const job = await fetchSummary(id);
        changeListed(client, id, () => job);
      } catch (error) {
        if (hasStatus(error, 404)) forget(client, [id]);
      }
    }
  };
  useJobEvents(onEvent);
  useCatchUp(
    useCallback(() => {
      void look();
      void refreshRows(loaded().slice(PAGE_SIZE).filter((row) => isActive(row.status)).map((row) => row.id));
    }, [look, loaded]),
  );

  const showFresh = useCallback(() => {
    setFresh(0);
    window.scrollTo({ top: 0 });
    void client.resetQueries({ queryKey: keys.library({ ...latest.current }) });
  }, [client]);
  return { fresh, showFresh };
}

/** Takes deleted jobs out of every list. */
export function forget(client: ReturnType<typeof useQueryClient>, ids: readonly string[]): void {
  const gone = new Set(ids);
  client.setQueriesData<Pages>({ queryKey: keys.libraries }, (found) => {
    if (!found) return found;
    return { ...found, pages: found.pages.map((page) => ({ ...page, items: page.items.filter((job) => !gone.has(job.id)) })) };
  });
  void client.invalidateQueries({ queryKey: keys.allCounts });
}
