import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { framedRoute } from "@/frame/routes";
import { text, whole } from "@/parts/search-params";
import { pipelineQuery, stepWorkflowsQuery } from "./queries";

export type PipelineTab = "design" | "versions";

export interface PipelineSearch {
  tab?: "versions";
  /** The shown version, and the version that it is compared with. */
  version?: number;
  with?: number;
}

export const pipelineRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/pipelines/$slug",
  validateSearch: (search: Record<string, unknown>): PipelineSearch => ({
    tab: search.tab === "versions" ? "versions" : undefined,
    version: whole(search.version),
    with: whole(search.with),
  }),
  loader: ({ context, params }) => {
    void context.queryClient.prefetchQuery(pipelineQuery(params.slug));
    void context.queryClient.prefetchQuery(stepWorkflowsQuery);
  },
  component: lazyRouteComponent(() => import("./PipelinePage"), "PipelinePage"),
});

export const newPipelineRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/pipelines/new",
  validateSearch: (search: Record<string, unknown>): { template?: string } => ({
    template: text(search.template),
  }),
  loader: ({ context }) => void context.queryClient.prefetchQuery(stepWorkflowsQuery),
  component: lazyRouteComponent(() => import("./NewPipelinePage"), "NewPipelinePage"),
});
