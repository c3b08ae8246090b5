// Applies job events to the cached responses that pages show: rows change in place, lists are refetched.

import type { ServerEvent } from "@client/sse";
import type { InfiniteData, QueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { keys } from "./keys";
import { followJobs } from "./stream";
import type { Job, JobEvent, JobPreview, JobProgress, JobSummary, Wallet } from "./types";

const GATHER_MS = 250;
type Listed = Pick<Job, "id" | "status"> & Partial<Job | JobSummary>;
type JobPage = { items: Listed[] };
type Subscriber = (event: JobEvent) => void;
const subscribers = new Set<Subscriber>();
const catchers = new Set<() => void>();

/** Calls the handlers with each event, for pages that show the history of a job as it grows. */
export function useJobEvents(handler: Subscriber): void {
  useEffect(() => {
    subscribers.add(handler);
    return () => void subscribers.delete(handler);
  }, [handler]);
}

/**
 * The stream was opened again, or the tab polls because there is no stream. Events may be missing, so the lists are
 * refetched.
 */
export function useCatchUp(handler: () => void): void {
  useEffect(() => {
    catchers.add(handler);
    return () => void catchers.delete(handler);
  }, [handler]);
}

/** Follows the job events of the signed-in user. Returns a function that stops it. */
export function startLiveUpdates(client: QueryClient, person: string): () => void {
  const refresh = gathered(client);
  const refreshAll = () => {
    refresh(keys.allJobs);
    refresh(keys.wallet);
    for (const catcher of catchers) catcher();
  };
  return followJobs(person, {
    onEvent: (event) => apply(client, event, refresh),
    onOpen: refreshAll,
    onPoll: refreshAll,
  });
}

function apply(client: QueryClient, event: ServerEvent, refresh: (key: readonly unknown[]) => void): void {
  switch (event.name) {
    case "progress": {
      const progress = JSON.parse(event.data) as JobProgress;
      change(client, progress.job_id, (job) => ({
        ...job,
        progress: { ...job.progress, ...progress, preview_url: job.progress?.preview_url },
      }));
      return;
    }
    case "preview": {
      const preview = JSON.parse(event.data) as JobPreview;
      change(client, preview.job_id, (job) => ({
        ...job,
        progress: { ...(job.progress ?? { job_id: job.id, updated_at: preview.at }), preview_url: preview.preview_url },
      }));
      return;
    }
    case "wallet":
      void showWallet(client, JSON.parse(event.data) as Wallet);
      // A page that lists holds or transactions has an old version now.
      for (const key of [keys.transactions, keys.holds, keys.ownBudgets]) refresh(key);
      return;
    default: {
      if (!event.name.startsWith("job.")) return; // a newer server sent an unknown status
      const happened = JSON.parse(event.data) as JobEvent;
      const status = happened.to_status;
      if (status) change(client, happened.job_id, (job) => ({ ...job, status }));
      for (const subscriber of subscribers) subscriber(happened);
      refresh(keys.job(happened.job_id));
      refresh(keys.jobEvents(happened.job_id));
      refresh(keys.summary(happened.job_id));
      refresh(keys.jobLists);
      refresh(keys.activeJobs);
      refresh(keys.allCounts);
    }
  }
}

/** A response that is still in flight may be older than this wallet, so it is dropped. */
export async function showWallet(client: QueryClient, wallet: Wallet): Promise<void> {
  await client.cancelQueries({ queryKey: keys.wallet, exact: true });
  client.setQueryData(keys.wallet, wallet);
}

/** Updates the job itself and its row in every list. */
function change(client: QueryClient, id: string, update: (job: Job) => Job): void {
  client.setQueryData<Job>(keys.job(id), (job) => job && update(job));
  changeListed(client, id, update as (job: Listed) => Listed);
}

/** Updates the row in every list. The row keeps its place. */
export function changeListed(client: QueryClient, id: string, update: (job: Listed) => Listed): void {
  const inPage = (page: JobPage): JobPage =>
    page.items.some((job) => job.id === id)
      ? { ...page, items: page.items.map((job) => (job.id === id ? update(job) : job)) }
      : page;
  for (const queryKey of [keys.jobLists, keys.libraries]) {
    client.setQueriesData<JobPage | InfiniteData<JobPage>>({ queryKey }, (found) => {
      if (found === undefined) return found;
      if (!("pages" in found)) return "items" in found ? inPage(found) : found;
      const pages = found.pages.map(inPage);
      return pages.some((page, index) => page !== found.pages[index]) ? { ...found, pages } : found;
    });
  }
}

/** Many events within a moment cause one refetch. */
function gathered(client: QueryClient): (key: readonly unknown[]) => void {
  const waiting = new Map<string, readonly unknown[]>();
  return (key) => {
    if (waiting.size === 0) {
      setTimeout(() => {
        const due = [...waiting.values()];
        waiting.clear();
        for (const each of due) void refetch(client, each);
      }, GATHER_MS);
    }
    waiting.set(JSON.stringify(key), key);
  };
}

/** A first response that is still in flight may be older than this event. Wait for it, then refetch. */
export async function refetch(client: QueryClient, queryKey: readonly unknown[]): Promise<void> {
  const first = client
    .getQueryCache()
    .findAll({ queryKey, fetchStatus: "fetching", predicate: (query) => query.state.data === undefined });
  await client.invalidateQueries({ queryKey });
  for (const query of first) {
    // A request that failed brought nothing old. Again at once, it would only hide the reason.
    if (query.state.data !== undefined) void client.invalidateQueries({ queryKey: query.queryKey, exact: true });
  }
}
