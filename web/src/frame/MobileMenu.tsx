import { useQuery } from "@tanstack/react-query";
import { walletQuery } from "@/api/queries";
import { formatTokens } from "@/design/Tokens";
import { AccountButton } from "./AccountButton";

/** On phones: what the sidebar shows at its foot. */
export function MobileMenu() {
  const wallet = useQuery(walletQuery);
  return (
    <div className="flex items-center gap-1">
      {wallet.data && <span className="num rounded-full border bg-panel px-2.5 py-1 text-xs font-[550] whitespace-nowrap">{formatTokens(wallet.data.balance)}</span>}
      <AccountButton withConnection />
    </div>
  );
}
