import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Badge, type Column, formatNumber, Table, Time } from "@/design";
import { MoreButton } from "@/parts/MoreButton";
import { ledgerTexts as texts } from "@/texts/ledger";
import { AUDIT_TONES, findingCount, requester } from "./audits";
import type { LedgerAudit } from "./queries";

interface Props {
  audits: readonly LedgerAudit[];
  query: UseInfiniteQueryResult<InfiniteData<{ items: LedgerAudit[] }>>;
  chosen: number;
}

export function AuditHistory({ audits, query, chosen }: Props) {
  const columns: readonly Column<LedgerAudit>[] = [
    {
      name: texts.historyColumns.at,
      cell: (audit) => (
        <Link
          to="/operate/ledger"
          search={{ audit: audit.id }}
          aria-current={audit.id === chosen ? "true" : undefined}
          className="whitespace-nowrap underline decoration-line-strong underline-offset-3 hover:decoration-text aria-[current=true]:font-[550]"
        >
          <Time at={audit.requested_at} />
        </Link>
      ),
    },
    {
      name: texts.historyColumns.state,
      cell: (audit) => <Badge tone={AUDIT_TONES[audit.state]}>{texts.states[audit.state]}</Badge>,
    },
    {
      name: texts.historyColumns.by,
      className: "max-lg:hidden",
      cell: (audit) => <span className="[overflow-wrap:anywhere]">{requester(audit)}</span>,
    },
    { name: texts.historyColumns.pools, right: true, className: "max-sm:hidden", cell: (audit) => audit.pools.length },
    { name: texts.historyColumns.findings, right: true, cell: (audit) => formatNumber(findingCount(audit)) },
  ];
  return (
    <section className="grid grid-cols-[minmax(0,1fr)] gap-3">
      <h2>{texts.history}</h2>
      <Table label={texts.history} rows={audits} columns={columns} rowKey={(audit) => audit.id} />
      <MoreButton query={query} />
    </section>
  );
}
