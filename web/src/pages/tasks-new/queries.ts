import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import type { Payload } from "@/parts/actors";

/** Payload of an earlier task, by the id of its job. */
export const sentQuery = (jobId: string) =>
  queryOptions({
    queryKey: ["tasks", "sent", jobId],
    queryFn: async ({ signal }) => {
      const task = await data(
        api.GET("/api/task/{task_id}", { params: { path: { task_id: `tq_${jobId.replaceAll("-", "")}` } }, signal }),
      );
      return { actor: task.actor, payload: (task.payload ?? {}) as Payload };
    },
    staleTime: Infinity,
    retry: false,
  });
