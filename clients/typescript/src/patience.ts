// Errors that pass, and how long a request is tried again.
import { type CallsheetError, Refusal, Unreachable } from "./problems.ts";

// These statuses pass. A 409 or 429 is waited for only if the response says how long: a 409 says it while an earlier
// request with the same idempotency key runs.
const PASSING = new Set([408, 409, 429, 502, 503, 504]);
const ASKS_TO_WAIT = new Set([409, 429]);
const FIRST_WAIT = 0.2;
const MAX_WAIT = 5;

/** The time for which something is tried again, from its first failure. */
export class Patience {
  readonly #seconds: number;
  #failures = 0;
  #end = 0;

  constructor(seconds: number) {
    this.#seconds = seconds;
  }

  /** After a success. */
  renew(): void {
    this.#failures = 0;
  }

  /** How long to wait before the next attempt. null if the time is over before it. */
  waitSeconds(asked: number | null): number | null {
    const now = performance.now() / 1000;
    if (this.#failures === 0) this.#end = now + this.#seconds;
    const longest = Math.min(FIRST_WAIT * 2 ** this.#failures, MAX_WAIT);
    this.#failures += 1;
    const seconds = asked ?? longest * (0.5 + Math.random() / 2);
    return now + seconds < this.#end ? seconds : null;
  }
}

/** Waits before the next attempt. Throws the error if it will not pass, or not in time. */
export async function pause(patience: Patience, error: unknown, signal?: AbortSignal): Promise<void> {
  if (!passes(error)) throw error;
  const seconds = patience.waitSeconds(error instanceof Refusal ? error.retryAfter : null);
  if (seconds === null) throw error;
  await sleep(seconds, signal);
}

/** Throws Unreachable with the sentence, unless the caller has ended the request. */
export async function arrived<Value>(
  promised: Promise<Value>,
  signal: AbortSignal | undefined,
  sentence: string,
): Promise<Value> {
  try {
    return await promised;
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw new Unreachable(sentence, { cause: error });
  }
}

/** Waits for the connection of a browser that has lost it. null if there is one, and in Node. */
export function backOnline(signal: AbortSignal): Promise<void> | null {
  if (globalThis.navigator?.onLine !== false) return null;
  return new Promise((resolve, reject) => {
    globalThis.addEventListener("online", () => resolve(), { once: true, signal });
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

/** Whether the same request may have success later. */
export function passes(error: unknown): error is CallsheetError {
  if (error instanceof Unreachable) return true;
  if (!(error instanceof Refusal)) return false;
  return PASSING.has(error.status) && (!ASKS_TO_WAIT.has(error.status) || error.retryAfter !== null);
}

export function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, seconds * 1000);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
