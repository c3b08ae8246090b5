import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_NUMBER, BY_TEXT } from "@/api/cursors";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";

export type User = Schemas["User"];
export type Invitation = Schemas["Invitation"];
export type Mail = Schemas["Mail"];
const PER_PAGE = 50;

export const usersQuery = (search: string, tenant: string | undefined) =>
  infiniteQueryOptions({
    queryKey: keys.users(search, tenant),
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET("/api/admin/users", {
          params: { query: { search, tenant, cursor: pageParam, limit: PER_PAGE } },
          signal,
        }),
      ),
    ...BY_TEXT,
    placeholderData: keepPreviousData,
  });

const MAILS_MS = 5_000;

/** E-mails leave the list as the server sends them. */
export const mailsQuery = infiniteQueryOptions({
  queryKey: keys.mails,
  queryFn: ({ pageParam, signal }) =>
    data(api.GET("/api/admin/mails", { params: { query: { cursor: pageParam, limit: PER_PAGE } }, signal })),
  ...BY_NUMBER,
  refetchInterval: MAILS_MS,
});

export const invitationsQuery = infiniteQueryOptions({
  queryKey: keys.invitations,
  queryFn: ({ pageParam, signal }) =>
    data(api.GET("/api/admin/invitations", { params: { query: { cursor: pageParam, limit: PER_PAGE } }, signal })),
  ...BY_TEXT,
});
