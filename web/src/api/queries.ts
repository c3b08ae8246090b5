// Queries that more than one page uses. A page's own queries are in its folder.
import { queryOptions } from "@tanstack/react-query";
import { api, data } from "./client";
import { keys } from "./keys";
import { rememberCsrfToken } from "./session";
import { ACTIVE, type Job } from "./types";

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

export const effectsQuery = (search = "") =>
  queryOptions({
    queryKey: keys.effects(search),
    queryFn: async ({ signal }) => (await data(api.GET("/api/effects", { params: { query: { search: search || undefined, limit: 200 } }, signal }))).items,
    staleTime: 30_000,
  });

export const jobQuery = (id: string) =>
  queryOptions({
    queryKey: keys.job(id),
    queryFn: ({ signal }) => data(api.GET("/api/ai-jobs/{job_id}", { params: { path: { job_id: id } }, signal })),
  });

const MOST_COUNTED = 200;

/** What the frame shows of jobs that are not finished: how many, and the tokens they hold. */
export const activeJobsQuery = queryOptions({
  queryKey: keys.activeJobs,
  queryFn: async ({ signal }) => {
    const pages = await Promise.all(ACTIVE.map((status) => data(api.GET("/api/ai-jobs", { params: { query: { status, limit: MOST_COUNTED } }, signal }))));
    const jobs: Job[] = pages.flatMap((page) => page.items);
    const isMore = pages.some((page) => page.next_cursor);
    return { count: jobs.length, isMore, held: jobs.reduce((sum, job) => sum + job.cost, 0) };
  },
});
