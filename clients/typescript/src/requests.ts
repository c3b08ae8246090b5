// Requests that are sent again: after a lost connection, and when the control plane asks for it.
import { CLASSES } from "./codes.ts";
import { arrived, Patience, pause } from "./patience.ts";
import { Refusal, readProblem, UnknownResponse } from "./problems.ts";

// A repeated request of these methods does what the first one did.
const REPEATABLE = new Set(["GET", "HEAD", "PUT", "DELETE"]);
const LIMIT_MS = 60_000;

export type Fetch = typeof fetch;

export interface RequestOptions {
  /** Makes the request one that may be sent twice. */
  idempotencyKey?: string | undefined;
  /** Whether the request may be sent twice. By default, that depends on its method and on its idempotency key. */
  repeat?: boolean;
  signal?: AbortSignal | undefined;
}

export class Requests {
  readonly url: string;
  readonly retrySeconds: number;
  readonly fetch: Fetch;
  readonly #headers: Record<string, string>;

  /** `headers` go to the control plane only, never to the storage. */
  constructor(url: string, headers: Record<string, string>, retrySeconds: number, fetcher: Fetch) {
    this.url = url;
    this.retrySeconds = retrySeconds;
    this.fetch = fetcher;
    this.#headers = headers;
  }

  /** Sends a request and returns the JSON of its response. */
  async ask<Value>(method: string, path: string, body?: unknown, options: RequestOptions = {}): Promise<Value> {
    const { idempotencyKey, signal } = options;
    const repeat = options.repeat ?? (REPEATABLE.has(method) || idempotencyKey !== undefined);
    const headers: Record<string, string> = {};
    if (idempotencyKey !== undefined) headers["Idempotency-Key"] = idempotencyKey;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const content = body === undefined ? null : JSON.stringify(body);
    return this.insist(new Patience(repeat ? this.retrySeconds : 0), signal, async () => {
      const limit = AbortSignal.timeout(LIMIT_MS);
      const within = signal === undefined ? limit : AbortSignal.any([signal, limit]);
      const response = await this.send(path, { method, headers, body: content, signal: within }, signal);
      const text = await this.#arrived(response.text(), signal);
      try {
        return (text === "" ? null : JSON.parse(text)) as Value;
      } catch {
        throw this.noCallsheet();
      }
    });
  }

  /** Sends a request to the control plane once. Refusals and lost connections throw. */
  async send(path: string, init: RequestInit, signal?: AbortSignal): Promise<Response> {
    const headers = { ...(init.headers as Record<string, string>), ...this.#headers };
    // A redirect would send the request, perhaps with the key, to another place than the one that was given.
    const sending = this.fetch(`${this.url}${path}`, { ...init, headers, redirect: "manual", cache: "no-store" });
    const response = await this.#arrived(sending, signal);
    if (!response.ok) throw await this.#arrived(refusalOf(response), signal);
    return response;
  }

  /** Does the work until it has success. Throws its error if that will not pass, or not in time. */
  async insist<Value>(patience: Patience, signal: AbortSignal | undefined, work: () => Promise<Value>): Promise<Value> {
    for (;;) {
      signal?.throwIfAborted();
      try {
        return await work();
      } catch (error) {
        await pause(patience, error, signal);
      }
    }
  }

  noCallsheet(): UnknownResponse {
    return new UnknownResponse(`The server at ${this.url} does not respond like Callsheet. Check the URL.`);
  }

  /** Waits for fetch, whose errors say little and differ between Node and browsers. */
  async #arrived<Value>(promised: Promise<Value>, signal: AbortSignal | undefined): Promise<Value> {
    return arrived(promised, signal, `No control plane responds at ${this.url}. Check that it is running there.`);
  }
}

/** The error of a response. It has the class of its code. */
export async function refusalOf(response: Response): Promise<Refusal> {
  const { problem, retryAfter } = await readProblem(response);
  const title = `${response.url === "" ? "The server" : new URL(response.url).host} returned the status ${response.status}.`;
  const found = problem ?? { type: "about:blank", title, status: response.status, code: "unknown" };
  return new (CLASSES[found.code] ?? Refusal)(found, retryAfter, response.headers.get("x-request-id"));
}
