import { infiniteQueryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_TEXT } from "@/api/cursors";
import { keys } from "@/api/keys";

const PER_PAGE = 100;

export const assetsQuery = infiniteQueryOptions({
  queryKey: [...keys.assets, "list"] as const,
  queryFn: ({ pageParam, signal }) =>
    data(api.GET("/api/admin/assets", { params: { query: { cursor: pageParam, limit: PER_PAGE } }, signal })),
  ...BY_TEXT,
});
