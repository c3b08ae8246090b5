// The wallets of users and tenants, as operators see them.
import type { Payer } from "@/api/types";

export const creditTexts = {
  title: (owner: string) => `Add tokens to the wallet of ${owner}`,
  reasonHint: "For the audit log, for example the number of an invoice.",
  send: (tokens: string) => `Add ${tokens}`,
  sendNothing: "Add tokens",
  done: (tokens: string) => `Done. The balance is ${tokens}.`,
  replayed: (tokens: string) => `These tokens had been added already. The balance is ${tokens}.`,
};

export const debitTexts: typeof creditTexts = {
  title: (owner: string) => `Take tokens back from the wallet of ${owner}`,
  reasonHint: "For the audit log, for example the number of a chargeback.",
  send: (tokens: string) => `Take back ${tokens}`,
  sendNothing: "Take tokens back",
  done: (tokens: string) => `Done. The balance is ${tokens}.`,
  replayed: (tokens: string) => `These tokens had been taken back already. The balance is ${tokens}.`,
};

export const amountTexts = {
  amount: "Tokens",
  amountProblem: "Enter a whole number above 0.",
  tooMany: (tokens: string) => `The wallet has ${tokens}. Tokens that active jobs hold cannot be taken back.`,
  reason: "Reason",
  now: "Balance now",
  after: "Balance afterwards",
};

export const ownedWalletTexts = {
  balance: "Balance",
  held: "Held",
  heldHint: "By active jobs",
  history: "Wallet history",
  none: "No transactions yet",
  noneText: "Added tokens and the cost of jobs are listed here.",
  /** The owner of a wallet does not pay for new jobs. */
  idle: {
    user: "The tenant pays for new jobs of this user. The tokens below cannot be spent at the moment.",
    tenant: "The tokens below cannot be spent at the moment.",
  } satisfies Record<Payer, string>,
  toTenant: "Wallet of the tenant",
};

export const payerTexts = {
  title: "Who pays",
  now: {
    user: "Each user pays for new jobs from a wallet of their own.",
    tenant: "The tenant pays for new jobs of all its users, from the wallet below.",
  } satisfies Record<Payer, string>,
  change: { user: "Let each user pay", tenant: "Let the tenant pay" } satisfies Record<Payer, string>,
  question: {
    user: (tenant: string) => `Let each user of ${tenant} pay?`,
    tenant: (tenant: string) => `Let ${tenant} pay for all its users?`,
  } satisfies Record<Payer, (tenant: string) => string>,
  newJobs: {
    user: "New jobs and retries are paid from the wallet of the user who submits them, at once.",
    tenant: "New jobs and retries of all users are paid from the wallet of the tenant, at once.",
  } satisfies Record<Payer, string>,
  runningJobs:
    "Active jobs keep the wallet that paid for them. If they are refunded, the tokens go back to that wallet.",
  noMove: "No tokens move. Add tokens to the wallet that pays, or take them back from the other, yourself.",
  nothingLeft: "The wallet of the tenant has no tokens. Jobs that cost something are refused until you add some.",
  done: {
    user: "Each user pays for new jobs now.",
    tenant: "The tenant pays for new jobs of all its users now.",
  } satisfies Record<Payer, string>,
};
