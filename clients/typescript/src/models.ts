// Short names for types of the API. The generator writes schema.ts with the types that this file names.
import type { components } from "./schema.ts";

type Schemas = components["schemas"];
export type Batch = Schemas["Batch"];
export type CreatedUpload = Schemas["CreatedUpload"];
export type Effect = Schemas["Effect"];
export type EffectProperty = Schemas["EffectProperty"];
export type Job = Schemas["Job"];
export type JobEvent = Schemas["JobEvent"];
export type JobOutput = Schemas["JobOutput"];
export type JobProgress = Schemas["JobProgress"];
export type JobStatus = Schemas["JobStatus"];
export type PageOfEffects = Schemas["Page_Effect_"];
export type PageOfJobs = Schemas["Page_Job_"];
export type PartToSign = Schemas["PartToSign"];
export type Problem = Schemas["Problem"];
export type Quote = Schemas["Quote"];
export type SignedParts = Schemas["SignedParts"];
/** `File` is a type of browsers and of Node. */
export type StoredFile = Schemas["File"];
export type UploadParts = Schemas["UploadParts"];
export type UploadRequest = Schemas["UploadRequest"];
export type Video = Schemas["Video"];
export type Wallet = Schemas["Wallet"];

// The OpenAPI document describes these events of a stream only in words.
export type JobPreview = { job_id: string; preview_url: string; at: string };
export type StreamReset = { reason: string };
