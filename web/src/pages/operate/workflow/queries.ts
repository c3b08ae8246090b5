import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { exactly } from "@/parts/workflow/queries";

const MAX_ITEMS = 200;

const WORKERS_MS = 10_000;

export const workflowWorkersQuery = (slug: string) =>
  queryOptions({
    queryKey: keys.workflowWorkers(slug),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/workflows/{workflow}/workers", { params: { path: { workflow: slug } }, signal })),
    refetchInterval: WORKERS_MS,
  });

/** The newest versions. */
export const versionsQuery = (slug: string) =>
  queryOptions({
    queryKey: keys.workflowVersions(slug),
    queryFn: async ({ signal }) =>
      (
        await data(
          api.GET("/api/admin/workflows/{workflow}/versions", {
            params: { path: { workflow: slug }, query: { limit: MAX_ITEMS } },
            signal,
          }),
        )
      ).items,
  });

export const versionQuery = (slug: string, version: number | undefined) =>
  queryOptions({
    queryKey: keys.workflowVersion(slug, version ?? 0),
    queryFn: ({ signal }) =>
      exactly<Schemas["WorkflowVersionDetail"]>(
        api.GET("/api/admin/workflows/{workflow}/versions/{version}", {
          params: { path: { workflow: slug, version: version ?? 0 } },
          parseAs: "text",
          signal,
        }),
      ),
    enabled: version !== undefined,
    // A version never changes.
    staleTime: Infinity,
  });
