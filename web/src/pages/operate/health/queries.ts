import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";

/** The checks write an object and connect to every database, so they run only on request. */
export const healthQuery = queryOptions({
  queryKey: keys.health,
  queryFn: ({ signal }) => data(api.GET("/api/admin/health", { signal })),
  staleTime: 60_000,
  refetchOnWindowFocus: false,
});
