import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Receipt } from "lucide-react";
import type { Transaction } from "@/api/types";
import { Button, Empty, formatTokens, Skeleton, Table, Time, type Column } from "@/design";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { walletTexts } from "@/texts/account";
import { transactionsQuery } from "./queries";

const signed = new Intl.NumberFormat("en", { signDisplay: "exceptZero" });

const COLUMNS: readonly Column<Transaction>[] = [
  {
    name: walletTexts.what,
    // The only column that gives way: the others never wrap, so that a phone need not scroll sideways.
    className: "w-full max-w-0",
    cell: (row) => (
      <>
        <span className="block truncate">{walletTexts.types[row.type]}</span>
        <About row={row} />
        {row.kept ? <span className="block truncate text-muted">{walletTexts.kept(formatTokens(row.kept))}</span> : null}
      </>
    ),
  },
  { name: walletTexts.when, cell: (row) => <Time at={row.created_at} className="whitespace-nowrap text-muted" /> },
  {
    name: walletTexts.amount,
    right: true,
    className: "whitespace-nowrap",
    // What a job spends was held before, so the balance does not change.
    cell: (row) => (row.amount === 0 ? <span className="text-muted">{walletTexts.settled}</span> : <span className={row.amount > 0 ? "font-[550] text-ok" : "font-[550]"}>{signed.format(row.amount)}</span>),
  },
];

/** Every change of the wallet, newest first. */
export function WalletHistory() {
  const query = useInfiniteQuery(transactionsQuery);
  const rows = query.data?.pages.flatMap((page) => page.items) ?? [];
  if (query.isError && rows.length === 0) return <ProblemPanel error={query.error} onRetry={() => void query.refetch()} />;
  if (query.isPending) return <Skeleton className="h-64" />;
  if (rows.length === 0) {
    return (
      <div className="panel">
        <Empty icon={<Receipt size={20} />} title={walletTexts.noHistory} text={walletTexts.noHistoryText} />
      </div>
    );
  }
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] justify-items-center gap-4">
      <div className="w-full">
        <Table label={walletTexts.history} rows={rows} columns={COLUMNS} rowKey={(row) => row.id} />
      </div>
      {query.hasNextPage && (
        <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          {walletTexts.more}
        </Button>
      )}
    </div>
  );
}

function About({ row }: { row: Transaction }) {
  if (row.job_id) {
    return (
      <Link
        to="/jobs/$id"
        params={{ id: row.job_id }}
        preload={false}
        className="block truncate text-muted underline decoration-line-strong underline-offset-3 hover:text-text hover:decoration-text"
      >
        {row.title ?? walletTexts.untitled(row.job_id.slice(-6))}
      </Link>
    );
  }
  if (!row.provider_transaction_id) return null;
  return (
    <span className="block truncate text-muted" title={row.provider_transaction_id}>
      {walletTexts.payment(row.provider_transaction_id)}
    </span>
  );
}
