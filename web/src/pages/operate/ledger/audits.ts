// Verdict and totals of an audit of the ledger. Pure.
import type { Schemas } from "@/api/types";
import type { Tone } from "@/design";
import { ledgerTexts as texts } from "@/texts/ledger";

type LedgerAudit = Schemas["LedgerAudit"];
type PoolAudit = Schemas["PoolAudit"];
type TotalName = keyof typeof texts.totals;

export const AUDIT_TONES: Record<LedgerAudit["state"], Tone> = {
  running: "run",
  balanced: "ok",
  findings: "bad",
  incomplete: "warn",
};

export function finishedPools(audit: LedgerAudit): number {
  return audit.pools.filter((pool) => pool.finished_at).length;
}

/** Sum over the audited pools; null before the first one. */
export function totalOf(audit: LedgerAudit, name: TotalName): number | null {
  const known = audit.pools.map((pool) => pool[name]).filter((value): value is number => value != null);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0);
}

export function findingCount(audit: LedgerAudit): number {
  return audit.pools.reduce((sum, pool) => sum + (pool.findings ?? 0), 0);
}

export function poolState(pool: PoolAudit): { text: string; tone: Tone } {
  if (pool.error) return { text: texts.poolFailed, tone: "warn" };
  if (pool.finished_at) return { text: texts.poolDone, tone: pool.findings ? "bad" : "ok" };
  return pool.started_at ? { text: texts.poolRuns, tone: "run" } : { text: texts.waits, tone: "plain" };
}

export function requester(audit: LedgerAudit): string {
  return audit.requested_by_email ?? (audit.requested_by === "operator" ? texts.commandLine : audit.requested_by);
}
