// The names under which answers are kept. A list and its items share the first word, so that one call refreshes both.
export const keys = {
  me: ["me"] as const,
  wallet: ["wallet"] as const,
  transactions: ["wallet", "transactions"] as const,
  effects: (search = "") => ["effects", "list", search] as const,
  effect: (slug: string) => ["effects", "one", slug] as const,
  allJobs: ["jobs"] as const,
  jobLists: ["jobs", "list"] as const,
  jobs: (filters: Record<string, unknown> = {}) => ["jobs", "list", filters] as const,
  activeJobs: ["jobs", "active"] as const,
  job: (id: string) => ["jobs", "one", id] as const,
  jobEvents: (id: string) => ["jobs", "events", id] as const,
  actors: ["actors"] as const,
  apiKeys: ["api-keys"] as const,
  sessions: ["sessions"] as const,
};
