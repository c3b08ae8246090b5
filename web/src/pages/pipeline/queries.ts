import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_NUMBER } from "@/api/cursors";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import type { StepWorkflow } from "./draft";

export type Pipeline = Schemas["Pipeline"];
export type PipelineVersion = Schemas["PipelineVersion"];
export type PreviewRequest = Schemas["PreviewRun"];
export type RunPreview = Schemas["RunPreview"];

export const pipelineQuery = (slug: string) =>
  queryOptions({
    queryKey: keys.pipeline(slug),
    queryFn: ({ signal }) =>
      data(api.GET("/api/pipelines/{pipeline}", { params: { path: { pipeline: slug } }, signal })),
    staleTime: 10_000,
  });

const PER_PAGE = 200;
const MAX_PAGES = 5;

/** All workflows and actors for steps. The page filters them while the user chooses. */
export const stepWorkflowsQuery = queryOptions({
  queryKey: keys.stepWorkflows,
  queryFn: async ({ signal }) => {
    const found: StepWorkflow[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const page = await data(
        api.GET("/api/pipeline-workflows", { params: { query: { cursor, limit: PER_PAGE } }, signal }),
      );
      found.push(...page.items);
      cursor = page.next_cursor ?? undefined;
      if (cursor === undefined) break;
    }
    return found.sort((one, other) => one.name.localeCompare(other.name));
  },
  staleTime: 60_000,
});

export const versionsQuery = (slug: string) =>
  infiniteQueryOptions({
    queryKey: keys.pipelineVersions(slug),
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET("/api/pipelines/{pipeline}/versions", {
          params: { path: { pipeline: slug }, query: { cursor: pageParam } },
          signal,
        }),
      ),
    ...BY_NUMBER,
  });

/** Dry run of these steps. The cache runs the same query once. */
export const previewQuery = (body: PreviewRequest) =>
  queryOptions({
    queryKey: keys.runPreview(body),
    queryFn: ({ signal }) => data(api.POST("/api/pipelines/preview", { body, signal })),
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: 60_000,
    gcTime: 60_000,
  });
