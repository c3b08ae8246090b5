import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { jobQuery } from "@/api/queries";
import { isActive, type Schemas } from "@/api/types";

export type AdminJob = Schemas["AdminJob"];

// No event contains the number of jobs ahead.
const WAITING_MS = 4_000;
const RUNNING_MS = 15_000;

export const watchedJobQuery = (id: string) =>
  queryOptions({
    ...jobQuery(id),
    refetchInterval: ({ state }) => {
      const status = state.data?.status;
      if (!status || !isActive(status)) return false;
      return status === "processing" ? RUNNING_MS : WAITING_MS;
    },
  });

const PREVIEWS_MS = 3_000;

/**
 * The job with its payload, which may be large. It is refetched only after a change of the status, and until its
 * previews exist.
 */
export const adminJobQuery = (id: string) =>
  queryOptions({
    queryKey: keys.operatorJob(id),
    queryFn: ({ signal }) => data(api.GET("/api/admin/jobs/{job_id}", { params: { path: { job_id: id } }, signal })),
    staleTime: 30_000,
    refetchInterval: ({ state }) =>
      state.data && !isActive(state.data.status) && state.data.preview_status === "pending" ? PREVIEWS_MS : false,
  });
