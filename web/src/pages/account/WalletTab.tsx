import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { meQuery, walletQuery } from "@/api/queries";
import { formatNumber, formatTokens, Skeleton, Stat, StatusBadge, Time } from "@/design";
import { formatBytes } from "@/parts/bytes";
import { JobThumb } from "@/parts/JobThumb";
import { payerOf } from "@/parts/wallet/payer";
import { walletTexts } from "@/texts/account";
import { OwnBudgets } from "./OwnBudgets";
import { holdsQuery } from "./queries";
import { WalletHistory } from "./WalletHistory";

export function WalletTab() {
  const wallet = useQuery(walletQuery);
  const holds = useQuery(holdsQuery);
  const wait = <Skeleton className="my-1 h-6 w-20" />;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-6">
      <div className="grid max-w-xl grid-cols-2 gap-4">
        <Stat
          label={walletTexts.balance}
          value={wallet.data ? formatNumber(wallet.data.balance) : wait}
          hint={walletTexts.balanceHint[payerOf(wallet.data)]}
        />
        <Stat
          label={walletTexts.held}
          value={wallet.data ? formatNumber(wallet.data.held) : wait}
          hint={holds.data ? walletTexts.heldHint(holds.data.length) : " "}
        />
      </div>
      <OwnBudgets />
      <Holds />
      <Stored />
      <section>
        <h2 className="mb-3">{walletTexts.history}</h2>
        <WalletHistory />
      </section>
    </div>
  );
}

function Stored() {
  // The frame reads the wallet once. These sums change with every job.
  const { data } = useQuery({ ...meQuery, refetchOnMount: "always" });
  if (!data?.storage) return null;
  const { user, database } = data.storage;
  return (
    <section aria-label={walletTexts.stored}>
      <h2>{walletTexts.stored}</h2>
      <p className="mb-3 text-muted">{walletTexts.storedText}</p>
      <div className="grid max-w-xl grid-cols-2 gap-4">
        <Stat
          label={walletTexts.storage}
          value={formatBytes(user.bytes)}
          hint={walletTexts.of(formatBytes(user.bytes_limit))}
        />
        <Stat
          label={walletTexts.database}
          value={formatBytes(database.bytes)}
          hint={walletTexts.of(formatBytes(database.bytes_limit))}
        />
      </div>
    </section>
  );
}

function Holds() {
  const { data } = useQuery(holdsQuery);
  const jobs = data?.filter((job) => job.cost > 0) ?? [];
  if (jobs.length === 0) return null;
  return (
    <section>
      <h2>{walletTexts.holds}</h2>
      <p className="mb-3 text-muted">{walletTexts.holdsText}</p>
      <ul className="panel divide-y overflow-hidden">
        {jobs.map((job) => (
          <li key={job.id}>
            <Link
              to="/jobs/$id"
              params={{ id: job.id }}
              className="flex items-center gap-4 px-4 py-3 hover:bg-hover focus-visible:outline-offset-[-2px]"
            >
              <JobThumb job={job} />
              <span className="min-w-0 grow">
                <span className="block truncate font-[550]">{job.title}</span>
                <span className="block truncate text-s text-muted">
                  <Time at={job.submitted_at} />
                </span>
              </span>
              <span className="max-sm:hidden">
                <StatusBadge status={job.status} />
              </span>
              <span className="num font-[550] whitespace-nowrap">{formatTokens(job.cost)}</span>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}
