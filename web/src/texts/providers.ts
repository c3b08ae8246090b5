import type { Schemas } from "@/api/types";
import { counted } from "./plurals";

export const providersTexts = {
  title: "Providers",
  text: "External services that run jobs. A provider that fails several times in a row is paused, and its jobs wait.",
  list: "Providers",
  states: { closed: "Working", open: "Paused", half_open: "Being tested" } satisfies Record<
    Schemas["Provider"]["state"],
    string
  >,
  finish: { sync: "The worker waits for the result", webhook: "The provider calls back" } as Record<string, string>,
  failures: "Failures in a row",
  openCalls: "Open calls",
  nextTry: "Next attempt",
  pause: "Pause",
  onlyTenant: "Paused for one tenant, because only its jobs failed",
  lastError: "Last error",
  noError: "No error",
  evidence: "Failed dispatches",
  reset: "End the pause",
  resetOf: (name: string) => `End the pause of ${name}`,
  resetTitle: (name: string) => `Send jobs to ${name} again?`,
  resetText: "The pause ends, and its failures count from zero. If the provider still fails, it is paused again.",
  keep: "Keep the pause",
  wasReset: (name: string) => `Jobs are sent to ${name} again.`,
  none: "No external provider is set up",
  noneText:
    "Set the key of a provider in the settings, for example CALLSHEET_PROVIDERS__REPLICATE__TOKEN, and start the control plane again.",
};

export const spendTexts = {
  title: "Use and cost",
  text: "Calls of jobs that ended, and the tokens that users were charged for them. Engines of your own workers are listed, too.",
  range: "Time range",
  ranges: { "24h": "24 hours", "30d": "30 days" },
  columns: {
    provider: "Provider",
    calls: "Calls",
    completed: "Completed",
    failed: "Failed",
    tokens: "Tokens charged",
    cost: "Estimated cost",
  },
  noPrice: "No price set",
  missing: (pools: string) =>
    `The tokens of these pools are missing, because their database is not available: ${pools}.`,
  none: "No ended job is counted yet",
  noneText:
    "Jobs of the last 30 days are counted once a minute. Set tasks.provider_prices to see what calls of a provider cost in money.",
};

export const limitTexts = {
  title: "Concurrency limits",
  text: "How many jobs of one identifier run at once, on all machines together.",
  list: "Concurrency limits",
  columns: { identifier: "Identifier", limit: "Limit", inUse: "Running" },
  running: (jobs: number) => counted(jobs, "job runs", "jobs run"),
  unlimited: "No limit",
  paused: "Paused",
  add: "Set a limit",
  edit: "Change",
  editOf: (identifier: string) => `Change the limit of ${identifier}`,
  dialogTitle: "Concurrency limit",
  identifier: "Identifier",
  identifierHint: "The identifier that jobs have, for example the name of a provider.",
  limit: "Jobs at once",
  limitHint: "0 pauses the jobs. Leave it empty for no limit.",
  wrong: "Enter a whole number, or leave it empty.",
  save: "Save",
  saved: (identifier: string) => `The limit of ${identifier} is changed.`,
  none: "No identifiers yet",
  noneText: "Identifiers appear with the first job that has one.",
};
