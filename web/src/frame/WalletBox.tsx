import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { walletQuery } from "@/api/queries";
import { Skeleton } from "@/design/Skeleton";
import { useDelta } from "@/parts/useDelta";
import { payerOf } from "@/parts/wallet/payer";
import { frameTexts } from "@/texts/frame";
import { formatNumber } from "@/texts/plurals";

/** Available and held tokens. A change is shown for a moment. */
export function WalletBox() {
  const wallet = useQuery(walletQuery);
  const balance = wallet.data?.balance;
  const held = wallet.data && (wallet.data.held ?? 0);
  const delta = useDelta(balance);
  return (
    <Link
      to="/account"
      className="num block rounded-m border bg-panel p-3 shadow-panel transition-colors duration-100 hover:bg-hover"
    >
      <span className="block text-s text-muted">{frameTexts.wallet[payerOf(wallet.data)]}</span>
      {balance !== undefined ? (
        <span className="flex items-baseline gap-2">
          <strong key={balance} className="block animate-[tick_160ms_ease-out] text-xl font-semibold tracking-tight">
            {formatNumber(balance)}
          </strong>
          {delta !== null && (
            <span data-delta className={`appear text-s font-[550] ${delta > 0 ? "text-ok" : "text-warn"}`}>
              {(delta > 0 ? frameTexts.moreTokens : frameTexts.fewerTokens)(formatNumber(Math.abs(delta)))}
            </span>
          )}
        </span>
      ) : (
        <Skeleton className="my-1 h-5 w-16" />
      )}
      {held === undefined ? (
        <Skeleton className="my-1 h-3 w-20" />
      ) : (
        <span key={held} className="block animate-[tick_160ms_ease-out] text-s text-muted">
          {held > 0 ? frameTexts.held(formatNumber(held)) : frameTexts.nothingHeld}
        </span>
      )}
    </Link>
  );
}
