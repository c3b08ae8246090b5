// The TypeScript client of Callsheet: docs/how-to/use-the-typescript-client.md. It needs nothing but fetch.
export { BatchHandle, type BatchWaitOptions } from "./batch.ts";
export { type BatchOptions, Callsheet, type ClientOptions, type SubmitOptions } from "./client.ts";
export * from "./codes.ts";
export { JobHandle, ResultFile, type WaitOptions } from "./job.ts";
export type * from "./models.ts";
export {
  CallsheetError,
  ClientError,
  type FieldProblem,
  JobNotCompleted,
  NotEnded,
  Refusal,
  UnknownResponse,
  Unreachable,
  UnusableFile,
  WebhookRefused,
} from "./problems.ts";
export type { Counted } from "./sending.ts";
export type { StreamItem, StreamOptions } from "./stream.ts";
export type { UploadOptions } from "./transfers.ts";
export type { Value, Values } from "./values.ts";
export { verify, type WebhookHeaders } from "./webhooks.ts";
