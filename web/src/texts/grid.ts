import { counted, formatNumber } from "./plurals";

export const gridTexts = {
  how: "Number of jobs",
  one: "One job",
  several: "Several values",
  text: "Give several values to any field. A field with one value is the same for all jobs; an empty field has its default.",
  lines: "One value per line.",
  numbers: "Between commas, or as a range: 1, 5, 10..20.",
  choices: "Choose several to compare them.",
  on: "On",
  off: "Off",
  values: (count: number) => counted(count, "value"),
  mode: "How the lists are combined",
  modes: { cartesian: "Every combination", zipped: "Row by row" },
  modeHints: {
    cartesian: "Each value of a list meets each value of the others.",
    zipped: "The first job has the first value of each list, and so on.",
  },
  count: (jobs: number) => counted(jobs, "job"),
  tooMany: (jobs: number, limit: number) =>
    `These lists make ${counted(jobs, "job")}. A batch has at most ${formatNumber(limit)}: shorten a list, or submit several batches.`,
  notNumber: (text: string) => `“${text}” is not a number.`,
  otherLength: (count: number, rows: number) =>
    `This list has ${counted(count, "value")}, and the longest has ${formatNumber(rows)}. Row by row, lists are equally long, or have one value.`,
};
