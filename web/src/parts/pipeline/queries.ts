import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";

export type PipelineTemplate = Schemas["PipelineTemplate"];

export const templatesQuery = queryOptions({
  queryKey: keys.pipelineTemplates,
  queryFn: ({ signal }) => data(api.GET("/api/pipeline-templates", { signal })),
  staleTime: 60_000,
});
