// Uploads a large file in parts, several at a time, and continues after a lost connection. The client and the web
// application send their requests in different ways, so the requests are given.
import type { PartToSign, UploadParts, UploadRequest } from "./models.ts";
import { backOnline, Patience, passes, pause } from "./patience.ts";
import { Refusal } from "./problems.ts";
import { type Counted, checksumOf } from "./sending.ts";

/** More do not make an upload faster, and each keeps a part in memory while its checksum is computed. */
const AT_ONCE = 3;
// Responses of the storage if the parts have been joined or removed, and the code of the control plane.
const ENDED = new Set([404, 409, 410]);
const CONFIRMED = "wrong_state";
const SAMPLES = 16;
const SAMPLE_BYTES = 64 * 1024;

/** The upload that is continued has other bytes. */
export class OtherFile extends Error {}

export interface PartRequests {
  /** Requests a URL for the part. */
  sign(part: PartToSign, signal: AbortSignal): Promise<UploadRequest>;
  put(to: UploadRequest, bytes: Blob, onSent: Counted, signal: AbortSignal): Promise<void>;
  onProgress: Counted;
  /** The upload waits for the connection of a browser, or goes on. */
  onPaused?: (isPaused: boolean) => void;
  retrySeconds: number;
}

/**
 * Sends the parts that have not arrived. Returns early if the upload has ended meanwhile, for example because another
 * tab has confirmed it: the confirmation knows.
 */
export async function sendParts(
  parts: UploadParts,
  source: Blob,
  requests: PartRequests,
  signal: AbortSignal | undefined,
): Promise<void> {
  const upload = new PartsOnTheirWay(source, requests);
  const arrived = new Map(parts.arrived.map((part) => [part.number, part.sha256]));
  // The first failure stops the other parts.
  const stop = new AbortController();
  const stopped = signal === undefined ? stop.signal : AbortSignal.any([signal, stop.signal]);
  let next = 1;
  let hasEnded = false;
  const worker = async () => {
    while (next <= parts.count && !hasEnded && !stopped.aborted) {
      const number = next++;
      const bytes = source.slice((number - 1) * parts.part_bytes, number * parts.part_bytes);
      // A page without HTTPS has no checksums, and no resume key, so it gets no parts.
      const sha256 = String(await checksumOf(bytes));
      const known = arrived.get(number);
      if (known !== undefined && known !== sha256) throw new OtherFile();
      if (known !== undefined) upload.count(number, bytes.size);
      else if (!(await upload.send({ number, sha256 }, bytes, stopped))) hasEnded = true;
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  } catch (error) {
    stop.abort();
    throw error;
  }
  signal?.throwIfAborted();
}

class PartsOnTheirWay {
  readonly #source: Blob;
  readonly #requests: PartRequests;
  readonly #sent = new Map<number, number>();

  constructor(source: Blob, requests: PartRequests) {
    this.#source = source;
    this.#requests = requests;
  }

  /** Reports that this number of bytes of the part has arrived or is on its way. */
  count(number: number, bytes: number): void {
    this.#sent.set(number, bytes);
    const all = [...this.#sent.values()].reduce((sum, each) => sum + each, 0);
    this.#requests.onProgress(all, this.#source.size);
  }

  /** Returns false if the upload takes no more parts. */
  async send(part: PartToSign, bytes: Blob, signal: AbortSignal): Promise<boolean> {
    const { sign, put, retrySeconds } = this.#requests;
    let patience = new Patience(retrySeconds);
    for (;;) {
      try {
        // A URL for each attempt: it may have expired while there was no connection.
        const to = await sign(part, signal);
        await put(to, bytes, (sent) => this.count(part.number, sent), signal);
        return true;
      } catch (error) {
        signal.throwIfAborted();
        if (hasOtherBytes(error)) throw new OtherFile();
        if (isEnded(error)) return false;
        this.count(part.number, 0);
        // While a browser has no connection, no attempt counts.
        if (passes(error) && (await this.#wasOffline(signal))) patience = new Patience(retrySeconds);
        else await pause(patience, error, signal);
      }
    }
  }

  async #wasOffline(signal: AbortSignal): Promise<boolean> {
    const waiting = backOnline(signal);
    if (waiting === null) return false;
    this.#requests.onPaused?.(true);
    await waiting;
    this.#requests.onPaused?.(false);
    return true;
  }
}

function hasOtherBytes(error: unknown): boolean {
  return error instanceof Refusal && (error.problem.errors ?? []).some((each) => each.field === "parts");
}

function isEnded(error: unknown): boolean {
  return error instanceof Refusal && (error.code === CONFIRMED || ENDED.has(error.status));
}

/**
 * The same for the same file, after a restart of the program or a reload of the page, too. It is made of samples:
 * WebCrypto would need the whole file in memory. The control plane compares the checksum of each part, so two files of
 * the same samples are not mixed. null on pages without HTTPS.
 */
export async function resumeKeyOf(source: Blob): Promise<string | null> {
  const step = Math.max(SAMPLE_BYTES, Math.floor((source.size - SAMPLE_BYTES) / (SAMPLES - 1)));
  const samples = Array.from({ length: SAMPLES }, (_, index) =>
    source.slice(index * step, index * step + SAMPLE_BYTES),
  );
  return checksumOf(new Blob(samples));
}
