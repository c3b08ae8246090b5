import { Link } from "@tanstack/react-router";
import type { Transaction } from "@/api/types";
import { formatTokens, Time, type Column } from "@/design";
import { walletTexts } from "@/texts/account";

const signed = new Intl.NumberFormat("en", { signDisplay: "exceptZero" });

/** `withLinks`: jobs of the person who looks at them. */
export function transactionColumns({ withLinks }: { withLinks: boolean }): readonly Column<Transaction>[] {
  return [
    {
      name: walletTexts.what,
      // The only column that gives way: the others never wrap, so that a phone need not scroll sideways.
      className: "w-full max-w-0",
      cell: (row) => (
        <>
          <span className="block truncate">{walletTexts.types[row.type]}</span>
          <About row={row} withLinks={withLinks} />
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
      cell: (row) =>
        row.amount === 0 ? <span className="text-muted">{walletTexts.settled}</span> : <span className={row.amount > 0 ? "font-[550] text-ok" : "font-[550]"}>{signed.format(row.amount)}</span>,
    },
  ];
}

function About({ row, withLinks }: { row: Transaction; withLinks: boolean }) {
  if (row.job_id) {
    const title = row.title ?? walletTexts.untitled(row.job_id.slice(-6));
    if (!withLinks) return <span className="block truncate text-muted">{title}</span>;
    return (
      <Link
        to="/jobs/$id"
        params={{ id: row.job_id }}
        preload={false}
        className="block truncate text-muted underline decoration-line-strong underline-offset-3 hover:text-text hover:decoration-text"
      >
        {title}
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
