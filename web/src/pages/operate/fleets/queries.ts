import { infiniteQueryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_NUMBER } from "@/api/cursors";
import { keys } from "@/api/keys";

const REFRESH_MS = 5_000;
const PER_PAGE = 100;

export const fleetsQuery = infiniteQueryOptions({
  queryKey: keys.fleets,
  queryFn: ({ pageParam, signal }) =>
    data(api.GET("/api/admin/fleets", { params: { query: { cursor: pageParam, limit: PER_PAGE } }, signal })),
  ...BY_NUMBER,
  refetchInterval: REFRESH_MS,
});
