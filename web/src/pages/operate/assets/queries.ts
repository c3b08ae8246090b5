import { infiniteQueryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";

const PER_PAGE = 100;

export const assetsQuery = infiniteQueryOptions({
  queryKey: [...keys.assets, "list"] as const,
  queryFn: ({ pageParam, signal }) =>
    data(api.GET("/api/admin/assets", { params: { query: { cursor: pageParam, limit: PER_PAGE } }, signal })),
  initialPageParam: undefined as string | undefined,
  getNextPageParam: (page) => page.next_cursor ?? undefined,
});
