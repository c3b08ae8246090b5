import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_NUMBER } from "@/api/cursors";
import { keys } from "@/api/keys";
import type { Payer } from "@/api/types";

export interface WalletOwner {
  kind: Payer;
  id: string;
  name: string;
  /** The owner itself, or the tenant of the user. */
  tenant: string;
}

export type Movement = "credit" | "debit";

const PER_PAGE = 50;
const REFRESH_MS = 10_000;

export const ownedWalletQuery = ({ kind, id }: WalletOwner) =>
  queryOptions({
    queryKey: keys.ownedWallet(kind, id),
    queryFn: ({ signal }) =>
      kind === "user"
        ? data(api.GET("/api/admin/users/{user_id}/wallet", { params: { path: { user_id: id } }, signal }))
        : data(api.GET("/api/admin/tenants/{tenant_id}/wallet", { params: { path: { tenant_id: id } }, signal })),
    refetchInterval: REFRESH_MS,
  });

export const ownedTransactionsQuery = ({ kind, id }: WalletOwner) =>
  infiniteQueryOptions({
    queryKey: keys.ownedTransactions(kind, id),
    queryFn: ({ pageParam, signal }) => {
      const query = { cursor: pageParam, limit: PER_PAGE };
      return kind === "user"
        ? data(
            api.GET("/api/admin/users/{user_id}/wallet/transactions", {
              params: { path: { user_id: id }, query },
              signal,
            }),
          )
        : data(
            api.GET("/api/admin/tenants/{tenant_id}/wallet/transactions", {
              params: { path: { tenant_id: id }, query },
              signal,
            }),
          );
    },
    ...BY_NUMBER,
  });

const PATHS = {
  user: { credit: "/api/admin/users/{user_id}/credits", debit: "/api/admin/users/{user_id}/debits" },
  tenant: {
    credit: "/api/admin/tenants/{tenant_id}/wallet/credits",
    debit: "/api/admin/tenants/{tenant_id}/wallet/debits",
  },
} as const;

export function moveTokens(
  { kind, id }: WalletOwner,
  movement: Movement,
  body: { amount: number; reason: string },
  idempotencyKey: string,
) {
  const header = { "idempotency-key": idempotencyKey };
  return kind === "user"
    ? data(api.POST(PATHS.user[movement], { params: { path: { user_id: id }, header }, body }))
    : data(api.POST(PATHS.tenant[movement], { params: { path: { tenant_id: id }, header }, body }));
}
