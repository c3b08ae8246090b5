import { counted, formatNumber } from "./plurals";

export const runsTexts = {
  title: "Runs",
  text: "Each run grows a tree of candidates from a pipeline. Compare them, and the best become parents.",
  list: "Runs",
  statusLabel: "Status",
  statuses: { all: "All", active: "Active", paused: "Paused", completed: "Completed", canceled: "Canceled" },
  pipeline: "Pipeline",
  allPipelines: "All pipelines",
  clear: "Clear filters",
  none: "No runs yet",
  noneText:
    "Start a run from a pipeline. It makes candidates step by step until your target or your budget is reached.",
  toPipelines: "Choose a pipeline",
  noneFound: "No run matches these filters",
  noneFoundText: "Change or clear the filters to see other runs.",
  finished: (leaves: number, target: number) => `${formatNumber(leaves)} of ${formatNumber(target)} finished`,
  progressOf: (name: string) => `Progress of ${name}`,
  spent: (spent: string, budget: string) => `${spent} of ${counted(budget, "token")}`,
  candidates: (count: number) => counted(count, "candidate"),
  noWinners: "No finished candidate yet",
  winnersOf: (name: string) => `Best candidates of ${name}`,
};

export const runTexts = {
  back: "All runs",
  tabs: { tree: "Tree", gallery: "Gallery", compare: "Compare", gates: "Gates", winners: "Winners", budget: "Budget" },
  tabsLabel: "Views of the run",
  startedFrom: (pipeline: string, version: number) => `${pipeline}, version ${version}`,
  status: { active: "Active", paused: "Paused", completed: "Completed", canceled: "Canceled" },
  waits: "Waits for you",
  reasons: {
    by_user: "A user stopped the run.",
    target_reached: "The run has as many finished candidates as you wanted.",
    nothing_left: "No candidate can get another child. Restore a branch, or start another run of the pipeline.",
    approval_needed: "A step waits for your approval.",
    budget_spent: "The next job would exceed the budget. Raise the budget to continue.",
    insufficient_tokens: "Your wallet has not enough tokens for the next job.",
    too_many_active_jobs: "You have as many active jobs as you may have. The run continues when one ends.",
    tenant_at_limit: "The runs of your tenant have as many active jobs as they may have.",
    quota_exceeded: "A quota is used up.",
    insufficient_storage: "This installation has too little free disk space. The run goes on when there is room.",
    cannot_build: "The next job cannot be made, because a workflow or an actor has changed.",
    base_failed: "The first step failed several times in a row. Resume the run to try again.",
    branches_failed: "Several branches failed in a row. Resume the run to try again.",
    internal_error: "An unexpected error stops the run. An operator finds it in the log.",
  },
  pause: "Pause",
  resume: "Resume",
  cancel: "Cancel run",
  cancelTitle: "Cancel this run?",
  cancelText:
    "Active jobs are canceled and their tokens come back. The candidates stay. A canceled run cannot be resumed.",
  keep: "Keep it",
  delete: "Delete run",
  deleteTitle: "Delete this run?",
  deleteText: (candidates: number) =>
    `${counted(candidates, "candidate")} with all images, previews and votes, and the jobs of the run are deleted. What was charged does not change. You cannot undo this.`,
  deleted: "The run is deleted.",
  paused: "The run is paused. Active jobs go on.",
  resumed: "The run goes on.",
  canceled: "The run is canceled.",
  candidateName: (number: number) => `Candidate ${number}`,
  empty: "No candidates yet",
  emptyText: "The first candidates appear here as soon as their jobs are done.",
  image: (number: number) => `Image of candidate ${number}`,
  noImage: "No image",
};

export const treeTexts = {
  label: (count: number) =>
    `Tree of ${counted(count, "candidate")}. Use the arrow keys to move, plus and minus to zoom, 0 to see all.`,
  selected: (number: number, step: string, elo: number, state: string) =>
    `Candidate ${number} of ${step}, rating ${elo}, ${state}`,
  zoomIn: "Zoom in",
  zoomOut: "Zoom out",
  fit: "Show all",
  minimap: "Map of the whole tree",
  legend: "Legend",
  rating: "Rating",
  low: "low",
  high: "high",
  shapes: {
    active: "Active",
    winner: "Best of the last step",
    making: "In progress",
    rejected: "Killed",
    surplus: "Surplus image",
    failing: "Jobs failed",
  },
  select: "Select a candidate to see how it was made.",
};

export const panelTexts = {
  label: "Selected candidate",
  close: "Close the panel",
  rating: "Rating",
  votes: "Votes",
  cost: "Cost",
  step: "Step",
  state: "State",
  states: {
    active: "Active",
    rejected: "Killed",
    killed_with_ancestor: "Killed with an ancestor",
    surplus: "Surplus image",
  },
  made: "How it was made",
  seed: "Seed",
  openJob: "Open job",
  openImage: "Open image",
  kill: "Kill branch",
  restore: "Restore branch",
  killTitle: (number: number) => `Kill candidate ${number} and its descendants?`,
  restoreTitle: (number: number) => `Restore candidate ${number}?`,
  killCandidates: (count: number, more: boolean) =>
    `${counted(count, "candidate")}${more ? " or more" : ""} will be rejected.`,
  killJobs: (jobs: number, refund: string) =>
    `${counted(jobs, "active job")} will be canceled, and your wallet gets ${refund} back.`,
  killNoJobs: "No active job makes descendants of it, so no tokens come back.",
  killUndo: "You can restore the branch later. Canceled jobs are not started again.",
  restoreCandidates: (count: number) =>
    `${counted(count, "candidate")} will be active again. Nothing is charged, and canceled jobs are not started again.`,
  asking: "Asking what this does…",
  killNow: "Kill branch",
  restoreNow: "Restore",
  killed: (count: number, jobs: number) =>
    `${counted(count, "candidate was", "candidates were")} rejected. ${counted(jobs, "job was", "jobs were")} canceled and refunded.`,
  killedFree: (count: number) => `${counted(count, "candidate was", "candidates were")} rejected.`,
  restored: (count: number) => `${counted(count, "candidate is", "candidates are")} active again.`,
  withAncestor: "It was rejected with an ancestor. Restore that candidate to bring it back.",
  notWanted: "Its job made more images than its parent may have children.",
};

export const galleryTexts = {
  allSteps: "All steps",
  stepLabel: "Step",
  statusLabel: "Which candidates",
  status: { all: "All", active: "Active", rejected: "Killed" },
  list: "Candidates",
  none: "No candidate here",
  noneText: "Choose another step, or wait until the run has made some.",
  candidate: "Candidate",
  loading: "Loading more candidates…",
};

export const compareTexts = {
  stepLabel: "Step",
  pair: "Pair to compare",
  choose: (number: number) => `Candidate ${number} is better`,
  left: "Left",
  right: "Right",
  both: "Both",
  neither: "Neither",
  undo: "Undo",
  progress: (judged: number, total: number) => `${formatNumber(judged)} of ${counted(total, "pair")}`,
  progressLabel: "Compared pairs",
  done: "All pairs are compared",
  doneText: "You have judged every pair of active candidates of this step.",
  toWinners: "Show the winners",
  tooFew: "There is nothing to compare yet",
  tooFewText: "A step needs at least two active candidates.",
  failed: "The vote was not saved. The pair comes back.",
  keys: "Keys: ← → choose, ↑ both, ↓ neither, U undo",
};

export const gateTexts = {
  none: "This run has no gates",
  noneText: "No step of its pipeline requires an approval: candidates become parents by themselves.",
  waiting: "Waits for approval",
  approved: "Approved",
  nothing: "Nothing waits yet",
  title: (step: string, next: string) => `${step} → ${next}`,
  parents: (count: number) => `${counted(count, "candidate")} may become parents.`,
  children: (count: number, step: string) =>
    `An approval lets the run make up to ${counted(count, "candidate")} of ${step}.`,
  cost: (cost: string, price: string) => `That costs up to ${cost}, at ${price} each, within the budget.`,
  noPrice: "The price is not known, because the workflow or actor of the next step cannot be used now.",
  approve: "Approve",
  approveCost: (cost: string) => `Approve, up to ${cost}`,
  done: (step: string) => `${step} is approved. The run goes on.`,
};

export const winnerTexts = {
  text: "The best active candidates of the last step, by rating.",
  none: "No finished candidate yet",
  noneText: "Candidates of the last step appear here, the best first.",
  rank: (rank: number) => `Number ${rank}`,
  rating: (elo: number, votes: number) => `Rating ${elo}, ${counted(votes, "vote")}`,
  export: "Export",
  exportActive: "Active candidates (zip)",
  exportAll: "All candidates (zip)",
  download: (number: number) => `Download candidate ${number}`,
};

export const moreTexts = {
  more: "Make more",
  title: "Make more candidates",
  text: (leaves: number, spent: string) =>
    `The run has ${counted(leaves, "finished candidate")} and has spent ${spent}. It continues with the candidates and votes that it has.`,
  target: "Finished candidates in all",
  budget: "Budget in tokens",
  budgetHint: (perLeaf: string) => `So far a finished candidate took about ${perLeaf}.`,
  start: "Make more",
  stop: "Close",
  done: (target: number) => `The run makes candidates until it has ${formatNumber(target)}.`,
};

export const budgetTexts = {
  used: "Used",
  held: "Held by active jobs",
  left: "Left",
  budget: "Budget",
  ofBudget: (budget: string) => `of ${budget}`,
  chart: "Tokens used over time",
  total: "Used in total",
  bySteps: "By step",
  step: "Step",
  jobs: "Jobs",
  tokens: "Tokens",
  change: "Change the budget",
  changeText: (spent: string) => `The run has spent ${spent}. The budget cannot be less.`,
  newBudget: "New budget in tokens",
  save: "Save",
  stop: "Close",
  saved: (budget: string) => `The budget is now ${budget}.`,
  noneSpent: "Nothing was spent yet.",
};
