import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Receipt } from "lucide-react";
import type { ReactNode } from "react";
import { Empty, formatNumber, Skeleton, Stat } from "@/design";
import { seesOperate } from "@/frame/navigation";
import { PagedTable } from "@/parts/PagedTable";
import { ProblemPanel, useReason } from "@/parts/ProblemPanel";
import { transactionColumns } from "@/parts/transactions";
import { useRole } from "@/parts/useRole";
import { ownedWalletTexts as texts } from "@/texts/wallets";
import { ownedTransactionsQuery, ownedWalletQuery, type WalletOwner } from "./owners";
import { payerOf } from "./payer";

/** A wallet and its history, for operators and administrators. `actions` are beside the balance. */
export function OwnedWallet({ owner, actions }: { owner: WalletOwner; actions?: ReactNode }) {
  const wallet = useQuery(ownedWalletQuery(owner));
  const { data } = wallet;
  const query = useInfiniteQuery(ownedTransactionsQuery(owner));
  const reason = useReason(wallet);
  const isUnread = data === undefined && reason !== null;
  const { me } = useRole();
  const readAgain = () => {
    void wallet.refetch();
    void query.refetch();
  };
  const wait = <Skeleton className="my-1 h-6 w-20" />;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-6">
      {data && payerOf(data) !== owner.kind && (
        <p className="max-w-prose text-muted">
          {texts.idle[owner.kind]}{" "}
          {owner.kind === "user" && (
            <Link
              to="/operate/tenants/$id"
              params={{ id: owner.tenant }}
              search={{ tab: "wallet" }}
              className="underline decoration-line-strong underline-offset-3 hover:text-text hover:decoration-text"
            >
              {texts.toTenant}
            </Link>
          )}
        </p>
      )}
      <div className="flex flex-wrap items-end justify-between gap-4">
        {isUnread ? (
          <ProblemPanel error={reason} onRetry={readAgain} isRetrying={!wallet.error} />
        ) : (
          <div className="grid max-w-xl min-w-0 grow grid-cols-2 gap-4">
            <Stat label={texts.balance} value={data ? formatNumber(data.balance) : wait} />
            <Stat label={texts.held} value={data ? formatNumber(data.held) : wait} hint={texts.heldHint} />
          </div>
        )}
        {actions && <div className="flex flex-wrap gap-2">{actions}</div>}
      </div>
      {/* The history of a wallet that cannot be read is missing for the same reason. */}
      {(!isUnread || query.data) && (
        <PagedTable
          query={query}
          columns={transactionColumns(me && seesOperate(me.role) ? "/operate/jobs/$id" : null, owner.kind)}
          rowKey={(row) => row.id}
          label={texts.history}
          empty={<Empty icon={<Receipt size={20} />} title={texts.none} text={texts.noneText} />}
        />
      )}
    </div>
  );
}
