import { infiniteQueryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_TEXT } from "@/api/cursors";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";

export type ListedPipeline = Schemas["ListedPipeline"];

const PER_PAGE = 50;
const REFRESH_MS = 10_000;

export const pipelinesQuery = infiniteQueryOptions({
  queryKey: keys.pipelines,
  queryFn: ({ pageParam, signal }) =>
    data(api.GET("/api/pipelines", { params: { query: { cursor: pageParam, limit: PER_PAGE } }, signal })),
  ...BY_TEXT,
  // Active runs change the cards of their pipelines.
  refetchInterval: (query) =>
    query.state.data?.pages.some((page) => page.items.some((each) => each.last_run?.status === "active"))
      ? REFRESH_MS
      : false,
});
