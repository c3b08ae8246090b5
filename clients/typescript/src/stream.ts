// The stream of a job: everything that it reports until it has ended, also over lost connections.
import type { JobEvent, JobPreview, JobProgress, JobStatus, StreamReset } from "./models.ts";
import { arrived, Patience, passes, pause } from "./patience.ts";
import { Refusal, Unreachable } from "./problems.ts";
import type { Requests } from "./requests.ts";
import { connection, type ServerEvent } from "./sse.ts";

export type StreamItem =
  | { type: "event"; event: JobEvent }
  | { type: "progress"; progress: JobProgress }
  | { type: "preview"; preview: JobPreview }
  /** All events follow again. */
  | { type: "reset"; reset: StreamReset };

const SILENCE_MS = 45_000;
const NO_CONTENT = 204;
const ENDED: readonly JobStatus[] = ["completed", "failed", "canceled", "expired"];

export function hasEnded(status: JobStatus | null | undefined): boolean {
  return status != null && ENDED.includes(status);
}

export interface StreamOptions {
  /** Called with the reason when the connection is lost and opened again. */
  onLost?: ((reason: string) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** The control plane closed the stream in good order, for example because it stops. */
class Closed extends Unreachable {}

export async function* streamOf(
  requests: Requests,
  jobId: string,
  { onLost, signal = new AbortController().signal }: StreamOptions = {},
): AsyncGenerator<StreamItem, void> {
  const patience = new Patience(requests.retrySeconds);
  const lost = "The stream of the job was interrupted.";
  let after: string | null = null;
  let isOver = false;
  const open = async (headers: Record<string, string>, ends: AbortSignal) => {
    const path = `/api/ai-jobs/${encodeURIComponent(jobId)}/stream`;
    const response = await requests.send(path, { headers, signal: ends }, signal);
    isOver = response.status === NO_CONTENT;
    return response;
  };
  for (;;) {
    const events = connection(open, { after, signal, silenceMs: SILENCE_MS });
    try {
      for (;;) {
        const next: IteratorResult<ServerEvent | null, void> = await connected(events.next(), signal, lost);
        if (next.done) break;
        patience.renew();
        if (next.value === null) continue;
        after = next.value.id ?? after;
        const item = itemOf(next.value, requests);
        if (item !== null) yield item;
        if (item?.type === "event" && hasEnded(item.event.to_status)) return;
      }
      if (isOver) return;
      throw new Closed("The control plane closed the stream before the job had ended.");
    } catch (error) {
      if (passes(error) && !(error instanceof Closed))
        onLost?.(error instanceof Refusal ? `it returned the status ${error.status}` : error.message);
      await pause(patience, error, signal);
    } finally {
      await events.return();
    }
  }
}

/** Errors of the client are thrown as they are. All others are those of a connection. */
async function connected<Value>(promised: Promise<Value>, signal: AbortSignal, lost: string): Promise<Value> {
  let known: unknown;
  const kept = promised.catch((error: unknown) => {
    if (error instanceof Refusal || error instanceof Unreachable) known = error;
    throw error;
  });
  try {
    return await arrived(kept, signal, lost);
  } catch (error) {
    throw known ?? error;
  }
}

function itemOf({ name, data }: ServerEvent, requests: Requests): StreamItem | null {
  try {
    if (name.startsWith("job.")) return { type: "event", event: JSON.parse(data) };
    if (name === "progress") return { type: "progress", progress: JSON.parse(data) };
    if (name === "preview") return { type: "preview", preview: JSON.parse(data) };
    if (name === "reset") return { type: "reset", reset: JSON.parse(data) };
  } catch {
    throw requests.noCallsheet();
  }
  return null;
}
