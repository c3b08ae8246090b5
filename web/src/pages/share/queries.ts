import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";

export const sharedQuery = (token: string) =>
  queryOptions({
    queryKey: ["shared", token] as const,
    queryFn: ({ signal }) => data(api.GET("/api/shares/{token}", { params: { path: { token } }, signal })),
    staleTime: 60_000,
  });
