import { useInfiniteQuery } from "@tanstack/react-query";
import { Receipt } from "lucide-react";
import { Empty } from "@/design";
import { PagedTable } from "@/parts/PagedTable";
import { transactionColumns } from "@/parts/transactions";
import { walletTexts } from "@/texts/account";
import { transactionsQuery } from "./queries";

const COLUMNS = transactionColumns("/jobs/$id");

/** All changes of the wallet, newest first. */
export function WalletHistory() {
  const query = useInfiniteQuery(transactionsQuery);
  return (
    <PagedTable
      query={query}
      columns={COLUMNS}
      rowKey={(row) => row.id}
      label={walletTexts.history}
      empty={<Empty icon={<Receipt size={20} />} title={walletTexts.noHistory} text={walletTexts.noHistoryText} />}
    />
  );
}
