import { counted, formatNumber } from "./plurals";

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
