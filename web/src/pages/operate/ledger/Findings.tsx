import { ledgerTexts as texts } from "@/texts/ledger";
import { formatNumber } from "@/texts/plurals";
import { findingCount } from "./audits";
import type { LedgerAudit } from "./queries";

/** Rows that break a rule, with the text of the rule. */
export function Findings({ audit }: { audit: LedgerAudit }) {
  const rows = audit.pools.flatMap((pool) =>
    (pool.first_findings ?? []).map((finding) => ({ pool: pool.pool, ...finding })),
  );
  if (rows.length === 0) return null;
  const all = findingCount(audit);
  return (
    <section aria-label={texts.findings}>
      <h2 className="mb-3">{texts.findings}</h2>
      {all > rows.length && (
        <p className="mb-3 text-muted">{texts.shownOf(formatNumber(rows.length), formatNumber(all))}</p>
      )}
      <ul className="panel divide-y">
        {rows.map((finding, index) => (
          <li key={index} className="px-5 py-3.5">
            <p className="font-[550]">{texts.rules[finding.rule]}</p>
            <code className="mt-1 block text-muted [overflow-wrap:anywhere]">
              {[
                `pool=${finding.pool}`,
                ...Object.entries(finding.row).map(([name, value]) => `${name}=${String(value)}`),
              ].join(" ")}
            </code>
          </li>
        ))}
      </ul>
    </section>
  );
}
