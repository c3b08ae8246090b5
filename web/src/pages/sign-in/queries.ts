import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";

/** The account without a password, or null. */
export const offeredQuery = queryOptions({
  queryKey: ["auth", "demo"],
  queryFn: async ({ signal }) => (await data(api.GET("/api/auth/demo", { signal }))).email ?? null,
  retry: false,
});
