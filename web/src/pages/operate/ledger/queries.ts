import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_NUMBER } from "@/api/cursors";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";

export type LedgerAudit = Schemas["LedgerAudit"];
const PER_PAGE = 20;
const RUNNING_MS = 2_000;
const IDLE_MS = 30_000;

export const ledgerAuditsQuery = infiniteQueryOptions({
  queryKey: keys.ledgerAudits,
  queryFn: ({ pageParam, signal }) =>
    data(api.GET("/api/admin/ledger-audits", { params: { query: { cursor: pageParam, limit: PER_PAGE } }, signal })),
  ...BY_NUMBER,
  // Refetched while an audit runs. Another operator may start one.
  refetchInterval: (query) => (query.state.data?.pages[0]?.items[0]?.state === "running" ? RUNNING_MS : IDLE_MS),
});

export const ledgerAuditQuery = (id: number) =>
  queryOptions({
    queryKey: keys.ledgerAudit(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/admin/ledger-audits/{audit_id}", { params: { path: { audit_id: id } }, signal })),
    refetchInterval: (query) => (query.state.data?.state === "running" ? RUNNING_MS : false),
  });
