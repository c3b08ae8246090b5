import { Badge, Progress, Time } from "@/design";
import { ledgerTexts as texts } from "@/texts/ledger";
import { AUDIT_TONES, finishedPools, requester } from "./audits";
import type { LedgerAudit } from "./queries";

/** The verdict, and the progress while the audit runs. */
export function AuditResult({ audit }: { audit: LedgerAudit }) {
  const done = finishedPools(audit);
  return (
    <section aria-label={texts.lastRun} className={`panel grid gap-3 border-l-4 p-5 ${BORDERS[audit.state]}`}>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <Badge tone={AUDIT_TONES[audit.state]}>{texts.states[audit.state]}</Badge>
        <span className="font-[550]">{texts.verdicts[audit.state]}</span>
      </div>
      {audit.state === "running" && (
        <Progress
          percent={audit.pools.length === 0 ? null : (done / audit.pools.length) * 100}
          label={texts.progress(done, audit.pools.length)}
        />
      )}
      <p className="num text-s text-muted">
        {texts.lastRun} <Time at={audit.requested_at} /> {texts.by(requester(audit))},{" "}
        {texts.progress(done, audit.pools.length)}
      </p>
    </section>
  );
}

const BORDERS: Record<LedgerAudit["state"], string> = {
  running: "border-l-run",
  balanced: "border-l-ok",
  findings: "border-l-bad",
  incomplete: "border-l-warn",
};
