import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_TEXT } from "@/api/cursors";
import { keys } from "@/api/keys";

const PER_PAGE = 50;
const of = (id: string) => ({ path: { user_id: id } });

export const userQuery = (id: string) =>
  queryOptions({
    queryKey: keys.user(id),
    queryFn: ({ signal }) => data(api.GET("/api/admin/users/{user_id}", { params: of(id), signal })),
  });

export const userKeysQuery = (id: string) =>
  infiniteQueryOptions({
    queryKey: keys.userKeys(id),
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET("/api/admin/users/{user_id}/keys", {
          params: { ...of(id), query: { cursor: pageParam, limit: PER_PAGE } },
          signal,
        }),
      ),
    ...BY_TEXT,
  });

export const userSessionsQuery = (id: string) =>
  queryOptions({
    queryKey: keys.userSessions(id),
    queryFn: ({ signal }) => data(api.GET("/api/admin/users/{user_id}/sessions", { params: of(id), signal })),
  });
