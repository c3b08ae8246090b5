import type { Schemas } from "@/api/types";
import { type Column, formatNumber, Table } from "@/design";
import { spendingTexts as texts } from "@/texts/budgets";
import { type Subject, subjectsOf } from "./series";

export function SpendingTable({ report }: { report: Schemas["TenantSpending"] }) {
  const { by, rows, tokens } = report;
  const columns: Column<Subject>[] = [
    {
      name: texts.columns.subject,
      className: "w-full",
      cell: ({ name }) => <span className="font-[550] [overflow-wrap:anywhere]">{name}</span>,
    },
    { name: texts.columns.jobs, right: true, cell: ({ jobs }) => formatNumber(jobs) },
    { name: texts.columns.tokens, right: true, cell: (row) => formatNumber(row.tokens) },
    {
      name: texts.columns.share,
      right: true,
      cell: (row) => `${tokens === 0 ? 0 : Math.round((row.tokens / tokens) * 100)} %`,
    },
  ];
  return <Table label={texts.bys[by]} rows={subjectsOf(rows, by)} columns={columns} rowKey={(row) => row.key} />;
}
