// Short names for types of the API. All other types are `Schemas["Name"]`.
import type { components } from "./schema";

export type { JobPreview } from "@client/models";

export type Schemas = components["schemas"];
export type Effect = Schemas["Effect"];
/** The parts of a file that lists and galleries show. */
export type Shown = Schemas["EffectPreview"]["after"];
export type Job = Schemas["Job"];
export type JobEvent = Schemas["JobEvent"];
export type JobProgress = Schemas["JobProgress"];
export type JobOutput = Schemas["JobOutput"];
export type JobSummary = Schemas["JobSummary"];
export type JobStatus = Schemas["JobStatus"];
export type Me = Schemas["Me"];
export type Problem = Schemas["Problem"];
export type Transaction = Schemas["Transaction"];
export type Wallet = Schemas["Wallet"];
export type Payer = Schemas["ChangeTenantWallet"]["paid_by"];

export const ACTIVE: readonly JobStatus[] = ["pending", "queued", "processing"];

export function isActive(status: JobStatus): boolean {
  return ACTIVE.includes(status);
}
