import { formatNumber, Stat } from "@/design";
import { commonTexts } from "@/texts/common";
import { ledgerTexts } from "@/texts/ledger";
import { totalOf } from "./audits";
import type { LedgerAudit } from "./queries";

const NAMES = ["balance", "held", "credited", "spent"] as const;

export function Totals({ audit }: { audit: LedgerAudit }) {
  return (
    <div className="grid grid-cols-2 gap-4 lg:grid-cols-4">
      {NAMES.map((name) => {
        const total = totalOf(audit, name);
        return (
          <Stat
            key={name}
            label={ledgerTexts.totals[name]}
            value={total === null ? commonTexts.none : formatNumber(total)}
          />
        );
      })}
    </div>
  );
}
