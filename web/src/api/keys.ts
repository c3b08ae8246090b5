// The names under which answers are kept. A list and its items share the first word, so that one call refreshes both.
export const keys = {
  me: ["me"] as const,
  wallet: ["wallet"] as const,
  transactions: ["wallet", "transactions"] as const,
  holds: ["wallet", "holds"] as const,
  effects: () => ["effects", "list"] as const,
  effect: (slug: string) => ["effects", "one", slug] as const,
  allJobs: ["jobs"] as const,
  jobLists: ["jobs", "list"] as const,
  jobs: (filters: Record<string, unknown> = {}) => ["jobs", "list", filters] as const,
  activeJobs: ["jobs", "active"] as const,
  job: (id: string) => ["jobs", "one", id] as const,
  jobEvents: (id: string) => ["jobs", "events", id] as const,
  /** What lists show of one job: its name and prompt, which the job itself does not carry. */
  summary: (id: string) => ["jobs", "summary", id] as const,
  /** The library's lists are changed in place and never asked for again as a whole. */
  libraries: ["library", "list"] as const,
  library: (filters: Record<string, unknown>) => ["library", "list", filters] as const,
  allCounts: ["jobs", "counts"] as const,
  counts: (filters: Record<string, unknown>) => ["jobs", "counts", filters] as const,
  file: (id: string) => ["files", "one", id] as const,
  uploadLimits: ["upload-limits"] as const,
  shares: (jobId: string) => ["shares", jobId] as const,
  actors: ["actors"] as const,
  apiKeys: ["api-keys"] as const,
  sessions: ["sessions"] as const,
};
