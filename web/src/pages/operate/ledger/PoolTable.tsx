import type { Schemas } from "@/api/types";
import { Badge, type Column, formatNumber, Table } from "@/design";
import { commonTexts } from "@/texts/common";
import { ledgerTexts as texts } from "@/texts/ledger";
import { poolState } from "./audits";
import type { LedgerAudit } from "./queries";

type PoolAudit = Schemas["PoolAudit"];
const shown = (value: number | null | undefined) => (value == null ? commonTexts.none : formatNumber(value));

const COLUMNS: readonly Column<PoolAudit>[] = [
  { name: texts.poolColumns.pool, cell: (pool) => <code>{pool.pool}</code> },
  {
    name: texts.poolColumns.state,
    cell: (pool) => (
      <>
        <Badge tone={poolState(pool).tone}>{poolState(pool).text}</Badge>
        {pool.error && <span className="mt-1 block text-muted">{pool.error}</span>}
      </>
    ),
  },
  { name: texts.poolColumns.wallets, right: true, className: "max-lg:hidden", cell: (pool) => shown(pool.wallets) },
  {
    name: texts.poolColumns.transactions,
    right: true,
    className: "max-lg:hidden",
    cell: (pool) => shown(pool.transactions),
  },
  { name: texts.poolColumns.balance, right: true, className: "max-sm:hidden", cell: (pool) => shown(pool.balance) },
  { name: texts.poolColumns.held, right: true, className: "max-sm:hidden", cell: (pool) => shown(pool.held) },
  { name: texts.poolColumns.findings, right: true, cell: (pool) => shown(pool.findings) },
];

export function PoolTable({ audit }: { audit: LedgerAudit }) {
  return <Table label={texts.pools} rows={audit.pools} columns={COLUMNS} rowKey={(pool) => pool.pool} />;
}
