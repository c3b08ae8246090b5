import type { Schemas } from "@/api/types";
import type { StatusFilter, View } from "@/parts/job/all-jobs-filters";
import type { Span } from "@/parts/job/statuses";
import { counted } from "./plurals";

const jobs = (count: string) => counted(count, "job");

export const allJobsTexts = {
  title: "Jobs of all tenants",
  text: "Find jobs, see what fails, and retry, cancel or reorder many at once.",
  viewLabel: "View",
  views: { jobs: "Jobs", errors: "Errors", actions: "Bulk actions" } satisfies Record<View, string>,
  // Filters
  search: "Search ids, errors and titles",
  statuses: {
    all: "All",
    active: "Active",
    queued: "Waiting",
    running: "Running",
    completed: "Completed",
    failed: "Failed",
    canceled: "Canceled",
  } satisfies Record<StatusFilter, string>,
  workflowLabel: "Workflow",
  anyWorkflow: "Any workflow",
  tenantLabel: "Tenant",
  anyTenant: "Any tenant",
  workerLabel: "Worker",
  anyWorker: "Any worker",
  kindLabel: "Kind",
  anyKind: "Any kind",
  timeLabel: "Time",
  anyTime: "Any time",
  newestDay: "Newest 24 hours",
  spans: { hour: "Last hour", day: "Last 24 hours", week: "Last 7 days", month: "Last 30 days" } satisfies Record<
    Span,
    string
  >,
  since: (time: string) => `Since ${time}`,
  before: (time: string) => `Before ${time}`,
  between: (from: string, until: string) => `${from} – ${until}`,
  customRange: "From … until …",
  rangeTitle: "Jobs of a time range",
  rangeText: "Times are in your time zone. A link to this page shows the same range to every reader.",
  from: "From",
  until: "Until",
  untilHint: "Leave it empty to see new jobs, too.",
  untilWrong: "Until must be later than From.",
  applyRange: "Show these jobs",
  keepRange: "Cancel",
  ofUser: (name: string) => `User ${name}`,
  ofRun: (id: string) => `Run ${id}`,
  ofError: (message: string) => `Error: ${message}`,
  clearRun: "Show the jobs of all runs",
  clearUser: "Show the jobs of all users",
  clearError: "Show jobs with any error",
  clear: "Clear filters",
  // List
  columns: { job: "Job", owner: "Tenant and user", workflow: "Workflow", cost: "Cost", time: "Submitted" },
  newJobs: (count: number) => counted(count, "new job"),
  lookingFurther: "Searching older jobs…",
  deletedUser: "Deleted user",
  onlyUser: (name: string) => `Only jobs of ${name}`,
  onlyTenant: (name: string) => `Only jobs of tenant ${name}`,
  priority: (value: number) => `Priority ${value}`,
  cycle: (value: number) => `Try ${value}`,
  empty: "No job yet",
  emptyText: "Jobs of all tenants appear here as soon as one is submitted.",
  noneFound: "No job matches",
  noneFoundText: "Clear a filter, or choose a longer time.",
  // Selection
  selected: (count: string) => `${count} selected`,
  all: (count: string) => `All ${jobs(count)} of this filter`,
  selectAll: (count: string) => `Select all ${count}`,
  noneFits: "None of these jobs can be changed: they are completed or canceled.",
  actions: { retry: "Retry", cancel: "Cancel", set_priority: "Set priority" } satisfies Record<
    Schemas["BulkActionKind"],
    string
  >,
  // The question
  questions: {
    retry: (count: string) => `Retry ${jobs(count)}?`,
    cancel: (count: string) => `Cancel ${jobs(count)}?`,
    set_priority: (count: string) => `Set the priority of ${jobs(count)}?`,
  } satisfies Record<Schemas["BulkActionKind"], (count: string) => string>,
  effects: {
    retry: (tokens: string) =>
      `Each job runs again. This reserves ${tokens} from the wallets of the users again; a job whose user has too few tokens is refused. If a job fails, its tokens are refunded.`,
    cancel: (tokens: string) =>
      `The jobs stop. The unspent part of ${tokens} goes back to the wallets of the users. A canceled job cannot be retried.`,
    set_priority: () =>
      "Jobs with a higher priority are leased first. No tokens move. Jobs that start running in the meantime are refused.",
  } satisfies Record<Schemas["BulkActionKind"], (tokens: string) => string>,
  rest: "The other selected jobs do not change, because their status does not allow this action.",
  frozen: "Jobs that are submitted, retried or ended from now on do not change. You can stop the action at any time.",
  partial: (count: string) => `${count} or more`,
  reason: "Reason",
  reasonHint: "Users see it in the history of their jobs.",
  priorityField: "Priority",
  priorityHint: "The default is 0. A job with a higher number comes first.",
  priorityWrong: "Enter a whole number.",
  keep: "Keep them as they are",
  started: (what: string) => `${what} started. Its progress is shown above the list.`,
  // Errors
  errors: "Errors",
  errorsText:
    "Failed and expired jobs in groups. Errors that differ only in ids, numbers, paths, URLs and hosts are one group.",
  errorColumns: {
    error: "Error",
    jobs: "Jobs",
    tenants: "Tenants",
    workflow: "Workflow",
    first: "First seen",
    last: "Last seen",
  },
  noErrors: "No job failed in this time",
  noErrorsText: "Choose a longer time to see older errors.",
  errorsPartial: "There are more errors than could be counted. Choose a shorter time for exact counts.",
  group: (count: string, tenants: number) => `${jobs(count)} of ${counted(tenants, "tenant")} failed like this`,
  firstSeen: "First seen",
  lastSeen: "Last seen",
  // Bulk actions
  bulkActions: "Bulk actions",
  noActions: "No bulk action yet",
  noActionsText: "Select jobs in the list, or all jobs of a filter, and choose an action.",
  kinds: { retry: "Retry", cancel: "Cancel", set_priority: "Set priority" } satisfies Record<
    Schemas["BulkActionKind"],
    string
  >,
  toPriority: (value: number) => `Set priority to ${value}`,
  states: { running: "Running", stopped: "Stopped", completed: "Completed" },
  by: (name: string) => `by ${name}`,
  stoppedBy: (name: string) => `Stopped by ${name}`,
  progress: (what: string) => `Progress of ${what}`,
  finding: (count: string) => `Finding jobs: ${count} so far`,
  counts: (done: string, total: string) => `${done} of ${total} done`,
  refused: (count: string) => `${count} refused`,
  untouched: (count: string) => `${count} untouched`,
  stop: "Stop",
  stopOf: (what: string) => `Stop ${what}`,
  hide: "Hide",
  sameFilter: "Show its filter",
  namedJobs: (count: number) => counted(count, "selected job"),
  everyJob: "All jobs",
};
