// Uploads a large file in parts, several at a time. It waits while there is no connection.
import { api, data } from "./client";
import { fieldReason, NetworkError } from "./problems";
import type { Schemas } from "./types";
import { put, type Sent, UploadBroken } from "./uploads";

/** More do not make an upload faster, and each keeps a part in memory while its checksum is computed. */
const AT_ONCE = 3;
const ATTEMPTS = 6;
const FIRST_PAUSE_MS = 500;

/** The upload that is continued is of another file. */
export class OtherFile extends Error {}

type Path = { file_id: string };
type Report = (sent: Sent) => void;

export async function sendParts(
  path: Path,
  parts: Schemas["UploadParts"],
  file: File,
  report: Report,
  signal: AbortSignal,
): Promise<void> {
  const progress = new Progress(file.size, report);
  const arrived = new Map(parts.arrived.map((part) => [part.number, part.sha256]));
  // The first failure stops the other parts.
  const stop = new AbortController();
  const stopped = AbortSignal.any([signal, stop.signal]);
  let next = 1;
  const worker = async () => {
    while (next <= parts.count && !stopped.aborted) {
      const number = next++;
      const bytes = file.slice((number - 1) * parts.part_bytes, number * parts.part_bytes);
      const sha256 = await checksum(bytes);
      const known = arrived.get(number);
      if (known !== undefined && known !== sha256) throw new OtherFile();
      if (known === undefined) await sendPart(path, { number, sha256 }, bytes, progress, stopped);
      progress.set(number, bytes.size);
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  } catch (error) {
    stop.abort();
    throw error;
  }
  signal.throwIfAborted();
}

async function sendPart(
  path: Path,
  part: Schemas["PartToSign"],
  bytes: Blob,
  progress: Progress,
  signal: AbortSignal,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      // A URL for each attempt: it may have expired while there was no connection.
      const { parts } = await data(
        api.POST("/api/videos/uploads/{file_id}/parts", { params: { path }, body: { parts: [part] }, signal }),
      );
      const onSent = ({ loaded }: Sent) => progress.set(part.number, loaded);
      return await put(parts[0]!, bytes, onSent, signal);
    } catch (error) {
      if (fieldReason(error, "parts") !== null) throw new OtherFile();
      const isLost = error instanceof NetworkError || error instanceof UploadBroken;
      if (signal.aborted || !isLost) throw error;
      progress.set(part.number, 0);
      // While there is no connection, no attempt counts.
      if (await isBackOnline(progress, signal)) attempt = 0;
      else if (attempt >= ATTEMPTS) throw error;
      else await pause(FIRST_PAUSE_MS * 2 ** attempt, signal);
    }
  }
}

/** Waits for the connection. False if there is one. */
async function isBackOnline(progress: Progress, signal: AbortSignal): Promise<boolean> {
  if (navigator.onLine) return false;
  progress.pause(true);
  await new Promise<void>((resolve, reject) => {
    window.addEventListener("online", () => resolve(), { once: true, signal });
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  progress.pause(false);
  return true;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        reject(signal.reason);
      },
      { once: true },
    );
  });
}

/** The bytes of all parts together. */
class Progress {
  readonly #parts = new Map<number, number>();
  #isPaused = false;

  constructor(
    readonly total: number,
    readonly report: Report,
  ) {}

  set(number: number, loaded: number): void {
    this.#parts.set(number, loaded);
    this.#tell();
  }

  pause(isPaused: boolean): void {
    this.#isPaused = isPaused;
    this.#tell();
  }

  #tell(): void {
    const loaded = [...this.#parts.values()].reduce((sum, bytes) => sum + bytes, 0);
    this.report({ loaded, total: this.total, isPaused: this.#isPaused });
  }
}

async function checksum(bytes: Blob): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await bytes.arrayBuffer()));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
