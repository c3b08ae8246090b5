import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { isActive } from "@/api/types";

// No stream shows operators the jobs of other users.
const ACTIVE_MS = 2_000;

export const waterfallQuery = (id: string) =>
  queryOptions({
    queryKey: keys.waterfall(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/jobs/{job_id}/waterfall", { params: { path: { job_id: id } }, signal })),
    refetchInterval: ({ state }) => (state.data && isActive(state.data.status) ? ACTIVE_MS : false),
  });

/** Names of tenant, user and workflow, and the fingerprint of the error. The job itself has only their ids. */
export const listedJobQuery = (id: string) =>
  queryOptions({
    queryKey: keys.jobRows([id]),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/jobs", { params: { query: { job_id: [id], limit: 1 } }, signal })),
    staleTime: 30_000,
    retry: false,
  });

export const errorGroupQuery = (fingerprint: string) =>
  queryOptions({
    queryKey: keys.errorGroup(fingerprint),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/job-errors/{fingerprint}", { params: { path: { fingerprint } }, signal })),
    retry: false,
  });
