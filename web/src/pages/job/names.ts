import type { JobSummary } from "@/api/types";

/** Whether the job makes images or sound, and not a text or a table. */
export function isMediaJob(summary: Pick<JobSummary, "medium" | "kind">): boolean {
  return summary.medium ? summary.medium !== "text" && summary.medium !== "other" : summary.kind === "effect";
}
