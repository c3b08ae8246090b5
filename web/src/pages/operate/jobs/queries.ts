import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_TEXT } from "@/api/cursors";
import { keys } from "@/api/keys";
import { type AllJobsSearch, toFilter } from "@/parts/job/all-jobs-filters";

export const PAGE_SIZE = 100;
const LIVE_MS = 4_000;
const COUNTS_MS = 10_000;
const NAMES_MS = 60_000;

export const allJobsQuery = (search: AllJobsSearch) =>
  infiniteQueryOptions({
    queryKey: keys.allTenantJobs(filterKey(search)),
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET("/api/admin/jobs", {
          params: { query: { ...toFilter(search), cursor: pageParam, limit: PAGE_SIZE } },
          signal,
        }),
      ),
    ...BY_TEXT,
    // The two queries below change rows in place.
    staleTime: Infinity,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    placeholderData: keepPreviousData,
  });

/** The newest jobs. The list may not contain them yet. */
export const newestJobsQuery = (search: AllJobsSearch) =>
  queryOptions({
    queryKey: keys.newestJobs(filterKey(search)),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/jobs", { params: { query: { ...toFilter(search), limit: PAGE_SIZE } }, signal })),
    refetchInterval: LIVE_MS,
  });

/** Current state of the visible rows. */
export const jobRowsQuery = (ids: readonly string[]) =>
  queryOptions({
    queryKey: keys.jobRows(ids),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/jobs", { params: { query: { job_id: [...ids], limit: PAGE_SIZE } }, signal })),
    enabled: ids.length > 0,
    refetchInterval: LIVE_MS,
    staleTime: LIVE_MS,
  });

/** Number of jobs per status. The status itself is not a filter here. */
export const totalsQuery = (search: AllJobsSearch) => {
  const { status: _status, ...rest } = search;
  return totals(rest);
};

/** Number of jobs that match the filter, including the status. */
export const matchingQuery = (search: AllJobsSearch, isWanted: boolean) => ({ ...totals(search), enabled: isWanted });

const totals = (search: AllJobsSearch) =>
  queryOptions({
    queryKey: keys.jobTotals(filterKey(search)),
    queryFn: ({ signal }) => data(api.GET("/api/admin/job-totals", { params: { query: toFilter(search) }, signal })),
    refetchInterval: COUNTS_MS,
    placeholderData: keepPreviousData,
  });

/** Without times, the last 24 hours count. */
export const errorGroupsQuery = ({ from, until, tenant, workflow }: AllJobsSearch) =>
  queryOptions({
    queryKey: keys.errorGroups({ from, until, tenant, workflow }),
    queryFn: ({ signal }) =>
      data(
        api.GET("/api/admin/job-errors", {
          params: {
            query: {
              since: from,
              until,
              tenant_id: tenant,
              workflow: workflow ? [workflow] : undefined,
              limit: PAGE_SIZE,
            },
          },
          signal,
        }),
      ),
    refetchInterval: COUNTS_MS,
    placeholderData: keepPreviousData,
  });

export const errorGroupQuery = (fingerprint: string) =>
  queryOptions({
    queryKey: keys.errorGroup(fingerprint),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/job-errors/{fingerprint}", { params: { path: { fingerprint } }, signal })),
    retry: false,
  });

const RUNNING_MS = 2_000;
export const bulkActionsQuery = queryOptions({
  queryKey: keys.bulkActions,
  queryFn: ({ signal }) => data(api.GET("/api/admin/bulk-actions", { params: { query: { limit: 50 } }, signal })),
  refetchInterval: (query) =>
    query.state.data?.items.some((action) => action.state === "running") ? RUNNING_MS : COUNTS_MS,
});

export const tenantsQuery = queryOptions({
  queryKey: keys.tenantNames,
  queryFn: ({ signal }) => data(api.GET("/api/admin/tenants", { params: { query: { limit: 200 } }, signal })),
  staleTime: NAMES_MS,
});

function filterKey({ view: _view, ...search }: AllJobsSearch): Record<string, unknown> {
  return search;
}
