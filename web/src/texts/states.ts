import type { JobStatus } from "@/api/types";

export const statusTexts: Record<JobStatus, string> = {
  pending: "Accepted",
  queued: "Waiting",
  processing: "Rendering",
  completed: "Completed",
  failed: "Failed",
  expired: "Expired",
  canceled: "Canceled",
};
