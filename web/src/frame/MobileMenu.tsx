import { useQuery } from "@tanstack/react-query";
import { activeJobsQuery, walletQuery } from "@/api/queries";
import { formatTokens } from "@/design/Tokens";
import { AccountMenu } from "./AccountMenu";
import { Connection } from "./Connection";

/** On phones: what the sidebar shows at its foot. */
export function MobileMenu() {
  const wallet = useQuery(walletQuery);
  const active = useQuery(activeJobsQuery);
  return (
    <div className="flex items-center gap-1">
      {wallet.data && <span className="num rounded-full border bg-panel px-2.5 py-1 text-xs font-[550] whitespace-nowrap">{formatTokens(wallet.data.balance)}</span>}
      <AccountMenu top={active.data ? <Connection /> : undefined} />
    </div>
  );
}
