import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { JobEvent } from "@/api/types";

const MAX_EVENTS = 200;

export const summaryQuery = (id: string) =>
  queryOptions({
    queryKey: keys.summary(id),
    queryFn: ({ signal }) => data(api.GET("/api/library/jobs/{job_id}", { params: { path: { job_id: id } }, signal })),
    staleTime: 60_000,
  });

export const jobEventsQuery = (id: string) =>
  queryOptions({
    queryKey: keys.jobEvents(id),
    queryFn: async ({ signal }) => {
      const events: JobEvent[] = [];
      for (let cursor: number | undefined; ; ) {
        const page = await data(
          api.GET("/api/ai-jobs/{job_id}/events", {
            params: { path: { job_id: id }, query: { cursor, limit: MAX_EVENTS } },
            signal,
          }),
        );
        events.push(...page.items);
        if (!page.next_cursor) return events;
        cursor = Number(page.next_cursor);
      }
    },
  });

export const effectOfJobQuery = (slug: string) =>
  queryOptions({
    queryKey: keys.effect(slug),
    queryFn: ({ signal }) => data(api.GET("/api/effects/{effect}", { params: { path: { effect: slug } }, signal })),
    staleTime: 60_000,
    retry: false,
  });

const MAX_TRANSACTIONS = 100;

/** The refund of a job; null if it is not among the newest transactions. */
export const refundQuery = (id: string, cycle: number) =>
  queryOptions({
    queryKey: [...keys.transactions, "refund", id, cycle] as const,
    queryFn: async ({ signal }) => {
      const page = await data(
        api.GET("/api/wallet/transactions", { params: { query: { limit: MAX_TRANSACTIONS } }, signal }),
      );
      return (
        page.items.find((each) => each.type === "JOB_REFUND" && each.job_id === id && each.charge_cycle === cycle) ??
        null
      );
    },
    staleTime: Infinity,
  });
