import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";

const REFRESH_MS = 5_000;
const SHOWN = 50;

export const fleetQuery = (id: number) =>
  queryOptions({
    queryKey: keys.fleet(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/fleets/{fleet_id}", { params: { path: { fleet_id: id } }, signal })),
    refetchInterval: REFRESH_MS,
  });

/** Waiting and running jobs of the fleet. */
export const fleetNumbersQuery = (id: number) =>
  queryOptions({
    queryKey: keys.fleetNumbers(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/fleets/{fleet_id}/scaling/metric", { params: { path: { fleet_id: id } }, signal })),
    refetchInterval: REFRESH_MS,
  });

/** Workflows that live workers of the fleet can run, and their waiting jobs in its stage. */
export const fleetWorkflowsQuery = (id: number) =>
  queryOptions({
    queryKey: keys.fleetWorkflows(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/fleets/{fleet_id}/workflows", { params: { path: { fleet_id: id } }, signal })),
    refetchInterval: REFRESH_MS,
  });

/** Rules of a scaled fleet. */
export const fleetScalingQuery = (id: number) =>
  queryOptions({
    queryKey: keys.fleetScaling(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/fleets/{fleet_id}/scaling", { params: { path: { fleet_id: id } }, signal })),
  });

export const scalingDriversQuery = queryOptions({
  queryKey: keys.scalingDrivers,
  queryFn: ({ signal }) => data(api.GET("/api/admin/scaling-drivers", { signal })),
  staleTime: Infinity,
});

export const fleetTokensQuery = (id: number) =>
  queryOptions({
    queryKey: keys.fleetTokens(id),
    queryFn: ({ signal }) =>
      data(
        api.GET("/api/admin/fleets/{fleet_id}/tokens", {
          params: { path: { fleet_id: id }, query: { limit: SHOWN } },
          signal,
        }),
      ),
  });

export const decisionsQuery = (id: number) =>
  queryOptions({
    queryKey: keys.fleetDecisions(id),
    queryFn: ({ signal }) =>
      data(
        api.GET("/api/admin/fleets/{fleet_id}/scaling/decisions", {
          params: { path: { fleet_id: id }, query: { limit: 20 } },
          signal,
        }),
      ),
    refetchInterval: REFRESH_MS,
  });
