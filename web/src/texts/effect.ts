import type { Payer } from "@/api/types";
import { counted, formatNumber } from "./plurals";

export const effectPageTexts = {
  back: "All effects",
  exampleBefore: "Example, before",
  exampleOf: (name: string) => `Example of ${name}`,
  generate: "Generate",
  generateBatch: (jobs: number) => `Generate ${formatNumber(jobs)}`,
  priceOfJobs: (tokens: string, jobs: number) => `${tokens} for ${counted(jobs, "job")}`,
  uploading: "Uploading…",
  submitting: "Submitting…",
  price: "Price",
  formula: "Calculated as",
  measuring: "Measuring the file…",
  wait: "Expected",
  balance: { user: "You have", tenant: "Your tenant has" } satisfies Record<Payer, string>,
  free: "Free",
  missing: (count: string) => `You need ${count} more.`,
  missingText: {
    user: "Ask the operator of this installation to add tokens.",
    tenant: "Your tenant pays for all its users. Ask the operator of this installation to add tokens to its wallet.",
  } satisfies Record<Payer, string>,
  unavailable: "This effect accepts no jobs at the moment.",
  fromJob: "Filled in from an earlier job.",
  fromJobGone: "The earlier job could not be loaded, so the form shows the default values.",
  notFound: "There is no such effect",
  notFoundText: "The effect may have been renamed or unpublished.",
  needsFile: {
    image: "Choose an image to work on.",
    video: "Choose a video to work on.",
    audio: "Choose an audio file to work on.",
  } as const,
};
