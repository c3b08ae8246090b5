import type { Transaction } from "@/api/types";
import { absoluteTime, type Column, formatTokens, Table } from "@/design";
import { operatorJobTexts as texts } from "@/texts/operator-job";

const WIDE = "max-sm:hidden";
const at = (line: Transaction) => <time dateTime={line.created_at}>{absoluteTime(new Date(line.created_at))}</time>;

const COLUMNS: readonly Column<Transaction>[] = [
  { name: texts.moneyColumns.at, className: `${WIDE} whitespace-nowrap`, cell: at },
  {
    name: texts.moneyColumns.type,
    className: "w-full",
    cell: (line) => (
      <>
        <span className="font-[550]">{texts.moneyTypes[line.type]}</span>
        <span className="block text-muted [overflow-wrap:anywhere]">{line.reason}</span>
        <span className="block text-muted sm:hidden">{at(line)}</span>
      </>
    ),
  },
  { name: texts.moneyColumns.cycle, right: true, className: WIDE, cell: (line) => line.charge_cycle ?? "–" },
  {
    name: texts.moneyColumns.amount,
    right: true,
    cell: (line) => (
      <span className="whitespace-nowrap">
        {line.amount > 0 ? `+${formatTokens(line.amount)}` : formatTokens(line.amount)}
      </span>
    ),
  },
];

/** Ledger entries of this job. */
export function MoneyTab({ transactions }: { transactions: readonly Transaction[] }) {
  if (transactions.length === 0) return <p className="text-muted">{texts.noMoney}</p>;
  return <Table label={texts.money} rows={transactions} columns={COLUMNS} rowKey={(line) => line.id} />;
}
