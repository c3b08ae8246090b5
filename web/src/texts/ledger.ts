import type { Schemas } from "@/api/types";
import { counted } from "./plurals";

type State = Schemas["LedgerAudit"]["state"];
type Rule = Schemas["LedgerFinding"]["rule"];

export const ledgerTexts = {
  title: "Ledger",
  text: "An audit checks that the balance of every wallet is the sum of its transactions, and that each job was charged and settled once.",
  run: "Run an audit",
  running: "An audit runs",
  started: "The audit is started.",
  states: {
    running: "Running",
    balanced: "Balanced",
    findings: "Does not balance",
    incomplete: "Incomplete",
  } satisfies Record<State, string>,
  verdicts: {
    running: "The audit reads every wallet, pool by pool. Jobs and payments do not wait for it.",
    balanced: "Every wallet balances.",
    findings: "Some rows break a rule. Examine the rows below before you change anything in the database.",
    incomplete:
      "The audit found no problem, but a pool was not available. Run the audit again when all pools are available.",
  } satisfies Record<State, string>,
  progress: (done: number, all: number) => `${done} of ${counted(all, "pool")}`,
  lastRun: "Last run",
  by: (who: string) => `by ${who}`,
  totals: { balance: "Tokens in wallets", held: "Held by active jobs", credited: "Ever credited", spent: "Ever spent" },
  pools: "Pools of the audit",
  poolColumns: {
    pool: "Pool",
    state: "State",
    wallets: "Wallets",
    transactions: "Transactions",
    balance: "Tokens",
    held: "Held",
    findings: "Findings",
  },
  waits: "Waits",
  poolRuns: "Running",
  poolDone: "Finished",
  poolFailed: "Not available",
  findings: "Findings",
  shownOf: (shown: string, all: string) =>
    `The first ${shown} of ${all}. The command callsheet wallet audit --all prints every finding.`,
  rules: {
    balances: "A balance is not the sum of its transactions, or is negative.",
    settlements: "A charge cycle of a job does not have exactly one reserve and one settlement, both of one wallet.",
    strays: "A transaction belongs to a charge cycle that its job never had.",
    room: "The tokens in a wallet and those that its active jobs hold exceed the largest possible balance.",
    budgets: "What was taken of a budget is not the sum of the tokens that jobs took, or exceeds its limit.",
  } satisfies Record<Rule, string>,
  history: "Audits",
  historyColumns: { at: "Started", state: "Result", by: "By", pools: "Pools", findings: "Findings" },
  never: "No audit was run here yet",
  neverText: "Run an audit. It only reads the database, and you can leave this page while it runs.",
  commandLine: "the command line",
};
