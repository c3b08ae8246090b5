import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_NUMBER } from "@/api/cursors";
import { keys } from "@/api/keys";
import type { WorkflowView } from "./route";

const PER_PAGE = 100;

export const workflowsQuery = (view: WorkflowView) =>
  infiniteQueryOptions({
    queryKey: keys.workflows(view),
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET("/api/admin/workflows", {
          params: {
            query: { is_active: view === "all" ? undefined : view === "active", cursor: pageParam, limit: PER_PAGE },
          },
          signal,
        }),
      ),
    ...BY_NUMBER,
    placeholderData: keepPreviousData,
  });
