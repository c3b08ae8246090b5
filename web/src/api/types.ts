// Short names for what the API returns. Everything else: `Schemas["Name"]`.
import type { components } from "./schema";

export type Schemas = components["schemas"];
export type Effect = Schemas["Effect"];
/** What a list or a gallery shows of a file. */
export type Shown = Schemas["EffectPreview"]["after"];
export type Job = Schemas["Job"];
export type JobEvent = Schemas["JobEvent"];
/** The event `preview` of a stream, which the document only describes in words. */
export type JobPreview = { job_id: string; preview_url: string; at: string };
export type JobProgress = Schemas["JobProgress"];
export type JobOutput = Schemas["JobOutput"];
export type JobSummary = Schemas["JobSummary"];
export type JobStatus = Schemas["JobStatus"];
export type Me = Schemas["Me"];
export type Problem = Schemas["Problem"];
export type Transaction = Schemas["Transaction"];
export type Wallet = Schemas["Wallet"];

export const ACTIVE: readonly JobStatus[] = ["pending", "queued", "processing"];

export function isActive(status: JobStatus): boolean {
  return ACTIVE.includes(status);
}
