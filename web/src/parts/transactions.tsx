import { Link } from "@tanstack/react-router";
import type { Payer, Transaction } from "@/api/types";
import { type Column, formatTokens, Time } from "@/design";
import { payerOf } from "@/parts/wallet/payer";
import { walletTexts } from "@/texts/account";

const signed = new Intl.NumberFormat("en", { signDisplay: "exceptZero" });

type JobPage = "/jobs/$id" | "/operate/jobs/$id";

/** `jobPage`: the page of jobs for this reader, if there is one. `of`: whose wallet the page shows. */
export function transactionColumns(jobPage: JobPage | null, of: Payer = "user"): readonly Column<Transaction>[] {
  return [
    {
      name: walletTexts.what,
      // Only this column shrinks. The others never wrap, so a phone need not scroll sideways.
      className: "w-full max-w-0",
      cell: (row) => (
        <>
          <span className="block truncate">{walletTexts.types[row.type]}</span>
          <About row={row} jobPage={jobPage} />
          {payerOf(row) !== of && <span className="block truncate text-muted">{walletTexts.fromTenant}</span>}
          {row.kept ? (
            <span className="block truncate text-muted">{walletTexts.kept(formatTokens(row.kept))}</span>
          ) : null}
        </>
      ),
    },
    { name: walletTexts.when, cell: (row) => <Time at={row.created_at} className="whitespace-nowrap text-muted" /> },
    {
      name: walletTexts.amount,
      right: true,
      className: "whitespace-nowrap",
      // The spent tokens were held before, so the balance does not change.
      cell: (row) =>
        row.amount === 0 ? (
          <span className="text-muted">{walletTexts.settled}</span>
        ) : (
          <span className={row.amount > 0 ? "font-[550] text-ok" : "font-[550]"}>{signed.format(row.amount)}</span>
        ),
    },
  ];
}

function About({ row, jobPage }: { row: Transaction; jobPage: JobPage | null }) {
  if (row.job_id) {
    const title = row.title ?? walletTexts.untitled(row.job_id.slice(-6));
    if (jobPage === null) return <span className="block truncate text-muted">{title}</span>;
    return (
      <Link
        to={jobPage}
        params={{ id: row.job_id }}
        preload={false}
        className="block truncate text-muted underline decoration-line-strong underline-offset-3 hover:text-text hover:decoration-text"
      >
        {title}
      </Link>
    );
  }
  if (!row.provider_transaction_id) return null;
  // The id of money that was taken back says nothing; the reason is in the words of who took it.
  const about =
    row.type === "PAYMENT_DEBIT" && row.reason ? row.reason : walletTexts.payment(row.provider_transaction_id);
  return (
    <span className="block truncate text-muted" title={row.provider_transaction_id}>
      {about}
    </span>
  );
}
