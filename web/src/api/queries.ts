// Queries that several pages use. Queries of a single page are in the folder of that page.
import { queryOptions } from "@tanstack/react-query";
import { api, data } from "./client";
import { keys } from "./keys";
import { rememberCsrfToken } from "./session";
import { ACTIVE, type Effect } from "./types";

export const meQuery = queryOptions({
  queryKey: keys.me,
  queryFn: async ({ signal }) => {
    const me = await data(api.GET("/api/me", { signal }));
    rememberCsrfToken(me.csrf_token);
    return me;
  },
  staleTime: 5 * 60_000,
});

export const walletQuery = queryOptions({
  queryKey: keys.wallet,
  queryFn: ({ signal }) => data(api.GET("/api/wallet", { signal })),
});

/**
 * The alerts of the server's last check. The banner and the overview share them, because a fresh check reads every
 * queue and all workers.
 */
export const alertsQuery = queryOptions({
  queryKey: keys.alerts,
  queryFn: ({ signal }) => data(api.GET("/api/admin/alerts", { params: { query: { fresh: false } }, signal })),
  refetchInterval: 15_000,
});

const EFFECTS_PER_PAGE = 200;
const MAX_PAGES = 5;

/** All published effects. The page filters them while the user types. */
export const effectsQuery = () =>
  queryOptions({
    queryKey: keys.effects(),
    queryFn: async ({ signal }) => {
      const effects: Effect[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < MAX_PAGES; page += 1) {
        const found = await data(
          api.GET("/api/effects", { params: { query: { cursor, limit: EFFECTS_PER_PAGE } }, signal }),
        );
        effects.push(...found.items);
        cursor = found.next_cursor ?? undefined;
        if (cursor === undefined) break;
      }
      return effects;
    },
    staleTime: 10_000,
  });

export const effectQuery = (slug: string) =>
  queryOptions({
    queryKey: keys.effect(slug),
    queryFn: async ({ signal }): Promise<Effect> =>
      data(api.GET("/api/effects/{effect}", { params: { path: { effect: slug } }, signal })),
    staleTime: 10_000,
  });

export const jobQuery = (id: string) =>
  queryOptions({
    queryKey: keys.job(id),
    queryFn: ({ signal }) => data(api.GET("/api/ai-jobs/{job_id}", { params: { path: { job_id: id } }, signal })),
  });

export const fileQuery = (id: string) =>
  queryOptions({
    queryKey: keys.file(id),
    queryFn: ({ signal }) => data(api.GET("/api/files/{file_id}", { params: { path: { file_id: id } }, signal })),
    // The URL in the response expires.
    staleTime: 5 * 60_000,
  });

/** Number of jobs that are not finished. */
export const activeJobsQuery = queryOptions({
  queryKey: keys.activeJobs,
  queryFn: async ({ signal }) => {
    const counts = await data(api.GET("/api/library/counts", { signal }));
    return ACTIVE.reduce((sum, status) => sum + (counts.by_status[status] ?? 0), 0);
  },
});

/** File types and sizes that this installation accepts. */
export const uploadLimitsQuery = queryOptions({
  queryKey: keys.uploadLimits,
  queryFn: ({ signal }) => data(api.GET("/api/videos/uploads/limits", { signal })),
  staleTime: 5 * 60_000,
});

/** The actors that can run a task or a step of a pipeline. */
export const actorsQuery = queryOptions({
  queryKey: keys.actors,
  queryFn: ({ signal }) => data(api.GET("/api/actors", { signal })),
  staleTime: 60_000,
});

/** The server counts its queues and workers every ten seconds. */
export const metricsQuery = queryOptions({
  queryKey: keys.metrics,
  queryFn: ({ signal }) => data(api.GET("/api/admin/metrics", { signal })),
  refetchInterval: 10_000,
});
