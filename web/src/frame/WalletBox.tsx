import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { walletQuery } from "@/api/queries";
import { Skeleton } from "@/design/Skeleton";
import { frameTexts } from "@/texts/frame";

const numbers = new Intl.NumberFormat("en");

export function WalletBox() {
  const wallet = useQuery(walletQuery);
  return (
    <Link to="/account" className="num block rounded-m border bg-panel p-3 shadow-panel transition-colors duration-100 hover:bg-hover">
      <span className="block text-s text-muted">{frameTexts.wallet}</span>
      {wallet.data ? (
        <strong className="block text-xl font-semibold tracking-tight">{numbers.format(wallet.data.balance)}</strong>
      ) : (
        <Skeleton className="my-1 h-5 w-16" />
      )}
      <span className="block text-s text-muted">{wallet.data?.held ? frameTexts.held(numbers.format(wallet.data.held)) : frameTexts.nothingHeld}</span>
    </Link>
  );
}
