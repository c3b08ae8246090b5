import { choose, counted, formatNumber } from "./plurals";

export const batchesTexts = {
  title: "Batches",
  text: "Each batch applies one effect to many files or values, with one price and one download.",
  statusLabel: "Status",
  statuses: { all: "All", running: "In progress", finished: "Finished" },
  effect: "Effect",
  allEffects: "All effects",
  reference: "Exact client reference",
  clear: "Clear filters",
  none: "No batches yet",
  noneText:
    "Open an effect and drop several files into its form, or choose “Several values” there. On the command line: " +
    "`callsheet submit EFFECT *.mp4`.",
  toEffects: "Choose an effect",
  noneFound: "No batch matches these filters",
  noneFoundText: "Change or clear the filters to see other batches.",
  progressOf: (name: string) => `Progress of ${name}`,
  completed: "Completed",
  failed: (count: number) => `${formatNumber(count)} failed`,
  canceled: "Canceled",
  canceledSome: (count: number) => `${formatNumber(count)} canceled`,
};

export const batchTexts = {
  back: "All batches",
  notFound: "There is no such batch",
  notFoundText: "It may belong to another account.",
  title: (name: string, items: number) => `${name}: ${counted(items, "item")}`,
  progress: (ended: number, items: number) => `${formatNumber(ended)} of ${counted(items, "item")}`,
  names: {
    active: "In progress",
    completed: "Completed",
    failed: "Failed",
    canceled: "Canceled",
    expired: "Expired",
  } as const,
  held: (tokens: string) => `${tokens} for all items`,
  submitted: "Submitted",
  finished: "Finished",
  cancel: "Cancel the rest",
  cancelTitle: (count: number) => `Cancel ${counted(count, "item")}?`,
  cancelText: "Their tokens are refunded. Results that are done stay.",
  keep: "Keep them",
  retry: (count: number) => `Retry ${counted(count, "item")}`,
  download: "Download all",
  item: "Item",
  grid: "Results by value",
};

export const severalFilesTexts = {
  chosen: (count: number) => counted(count, "file"),
  text: "Each file becomes a job with the values below. All of them are one batch.",
  none: "No file chosen",
  add: "Add files",
  clear: "Remove all",
  remove: (name: string) => `Remove ${name}`,
  retry: (name: string) => `Upload ${name} again`,
  waiting: "Waits for its upload",
  uploaded: (done: number, count: number) => `${formatNumber(done)} of ${counted(count, "file")} uploaded`,
  tooMany: (limit: number) => `A batch has at most ${counted(limit, "file")}. The others were left out.`,
  notUploaded: (count: number) =>
    `${counted(count, "file")} cannot be used. ${choose(count, "Remove it, or try it again.", "Remove them, or try them again.")}`,
};
