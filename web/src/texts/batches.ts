import { formatNumber } from "./plurals";

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
