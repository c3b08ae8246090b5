import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { walletQuery } from "@/api/queries";
import { formatTokens } from "@/design/Tokens";
import { payerOf } from "@/parts/wallet/payer";
import { frameTexts } from "@/texts/frame";
import { AccountButton } from "./AccountButton";
import { ConnectionDot } from "./Connection";

/** Shows on phones the content of the sidebar's foot. */
export function MobileMenu() {
  const { data } = useQuery(walletQuery);
  return (
    <div className="flex items-center gap-1">
      {data && (
        <Link
          to="/account"
          title={frameTexts.wallet[payerOf(data)]}
          className="num flex min-h-9 items-center gap-1.5 rounded-full border bg-panel px-2.5 text-xs font-[550] whitespace-nowrap touch:min-h-10"
        >
          <ConnectionDot />
          {formatTokens(data.balance)}
        </Link>
      )}
      <AccountButton withConnection />
    </div>
  );
}
