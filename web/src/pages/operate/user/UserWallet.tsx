import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Receipt } from "lucide-react";
import { Empty, formatNumber, Skeleton, Stat } from "@/design";
import { seesOperate } from "@/frame/navigation";
import { PagedTable } from "@/parts/PagedTable";
import { transactionColumns } from "@/parts/transactions";
import { useRole } from "@/parts/useRole";
import { userWalletTexts as texts } from "@/texts/users";
import { userTransactionsQuery, userWalletQuery } from "./queries";

export function UserWallet({ id }: { id: string }) {
  const { data } = useQuery(userWalletQuery(id));
  const query = useInfiniteQuery(userTransactionsQuery(id));
  const { me } = useRole();
  const wait = <Skeleton className="my-1 h-6 w-20" />;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-6">
      <div className="grid max-w-xl grid-cols-2 gap-4">
        <Stat label={texts.balance} value={data ? formatNumber(data.balance) : wait} />
        <Stat label={texts.held} value={data ? formatNumber(data.held) : wait} hint={texts.heldHint} />
      </div>
      <PagedTable
        query={query}
        columns={transactionColumns(me && seesOperate(me.role) ? "/operate/jobs/$id" : null)}
        rowKey={(row) => row.id}
        label={texts.history}
        empty={<Empty icon={<Receipt size={20} />} title={texts.none} text={texts.noneText} />}
      />
    </div>
  );
}
