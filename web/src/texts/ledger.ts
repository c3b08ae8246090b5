import type { Schemas } from "@/api/types";

type State = Schemas["LedgerAudit"]["state"];
type Rule = Schemas["LedgerFinding"]["rule"];

export const ledgerTexts = {
  title: "Ledger",
  text: "An audit proves for every wallet that its balance is the sum of its transactions, and that each job was charged and settled once.",
  run: "Run an audit",
  running: "An audit runs",
  started: "The audit is started.",
  states: { running: "Running", balanced: "Balanced", findings: "Does not balance", incomplete: "Incomplete" } satisfies Record<State, string>,
  verdicts: {
    running: "The audit reads every wallet, pool by pool. Nothing waits for it.",
    balanced: "Every wallet balances.",
    findings: "Some rows break a rule. Keep the database as it is, and look at the rows below.",
    incomplete: "No finding, but a pool was not available. Run the audit again when it is.",
  } satisfies Record<State, string>,
  progress: (done: number, all: number) => `${done} of ${all === 1 ? "1 pool" : `${all} pools`}`,
  lastRun: "Last run",
  by: (who: string) => `by ${who}`,
  totals: { balance: "Tokens in wallets", held: "Held by active jobs", credited: "Ever credited", spent: "Ever spent" },
  asOf: "As of",
  pools: "Pools of the audit",
  poolColumns: { pool: "Pool", state: "State", wallets: "Wallets", transactions: "Transactions", balance: "Tokens", held: "Held", findings: "Findings" },
  waits: "Waits",
  poolRuns: "Running",
  poolDone: "Finished",
  poolFailed: "Not available",
  findings: "Findings",
  shownOf: (shown: string, all: string) => `The first ${shown} of ${all}. The command callsheet wallet audit --all prints every finding.`,
  rules: {
    balances: "A balance is not the sum of its transactions, or is negative.",
    settlements: "A charge cycle of a job does not have exactly one reserve and one settlement.",
    strays: "A transaction belongs to a charge cycle that its job never had.",
    room: "A wallet has no room for the tokens that its active jobs hold.",
  } satisfies Record<Rule, string>,
  history: "Audits",
  historyColumns: { at: "Started", state: "Result", by: "By", pools: "Pools", findings: "Findings" },
  never: "No audit was run here yet",
  neverText: "Run one. It only reads, and you can leave this page while it runs.",
  commandLine: "the command line",
};
