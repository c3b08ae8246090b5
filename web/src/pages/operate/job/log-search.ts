// Builds the command that finds the log lines of a job. Pure.
import type { Schemas } from "@/api/types";

export type OperatorEvent = Schemas["OperatorEvent"];

/** A job with very many retries has more requests than a command line can hold. */
export const MAX_REQUESTS = 20;
// Log lines can be older than the first event if the clocks of database and control plane differ.
const EARLIER_MS = 60_000;

/** The newest requests that changed the job, oldest first, each once. */
export function requestsOf(events: readonly OperatorEvent[]): string[] {
  return [...new Set(events.flatMap((event) => event.request_id ?? []))].slice(-MAX_REQUESTS);
}

/** Ids consist of letters, digits, `.`, `_` and `-`, so they need no quotes. */
export function logSearch(jobId: string, events: readonly OperatorEvent[]): string {
  const wanted = [jobId, ...requestsOf(events)].join("|");
  const first = events[0];
  const since = first
    ? ` --since "${new Date(Date.parse(first.at) - EARLIER_MS).toISOString().slice(0, 19).replace("T", " ")} UTC"`
    : "";
  return `journalctl -u callsheet -o cat${since} | grep -E "${wanted}"`;
}
