// Files on their way: uploads to signed URLs, and downloads.
import type { CreatedUpload, JobOutput, StoredFile, UploadRequest } from "./models.ts";
import { Refusal, UnusableFile } from "./problems.ts";
import { arrived, type Fetch, Patience, type Requests, refusalOf } from "./requests.ts";

/** Called with the bytes so far and the size of the whole. */
export type Counted = (done: number, total: number) => void;

export interface UploadOptions {
  /** The name of a Blob that has none. Its extension says the type, if the Blob does not. */
  name?: string | undefined;
  onProgress?: Counted | undefined;
  signal?: AbortSignal | undefined;
}

/** Takes a download. It starts again after a lost connection. */
export interface Sink {
  restart(): Promise<void> | void;
  write(piece: Uint8Array<ArrayBuffer>): Promise<void> | void;
}

const TYPES: Record<string, string> = {
  mp4: "video/mp4",
  m4v: "video/mp4",
  mov: "video/quicktime",
  webm: "video/webm",
  mkv: "video/x-matroska",
  avi: "video/x-msvideo",
  ts: "video/mp2t",
  mts: "video/mp2t",
  "3gp": "video/3gpp",
  wmv: "video/x-ms-wmv",
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  avif: "image/avif",
  bmp: "image/bmp",
  tif: "image/tiff",
  tiff: "image/tiff",
  heic: "image/heic",
  mp3: "audio/mpeg",
  wav: "audio/wav",
  flac: "audio/flac",
  m4a: "audio/mp4",
  aac: "audio/aac",
  ogg: "audio/ogg",
  opus: "audio/ogg",
};
const MAX_NAME_LENGTH = 200;
const MAX_EXTENSION_LENGTH = 12;
// WebCrypto takes a checksum of bytes that are in memory. A larger file has none.
const MAX_HASHED_BYTES = 64 * 2 ** 20;
const FORBIDDEN = 403;
// Browsers set these headers themselves and refuse them from a page.
const SET_BY_BROWSERS = new Set(["content-length", "host"]);
const INTERRUPTED = "The upload was interrupted.";

/** Uploads and confirms a file. */
export async function upload(requests: Requests, source: Blob, options: UploadOptions = {}): Promise<StoredFile> {
  const { signal } = options;
  const name = options.name ?? (source instanceof File ? source.name : "");
  const mimeType = mediaType(source.type, name);
  if (source.size === 0) throw new UnusableFile(`${name || "The file"} is empty.`);
  const body = {
    name: shortName(name || `file.${extensionOf(mimeType)}`),
    mime_type: mimeType,
    size: source.size,
    sha256: source.size <= MAX_HASHED_BYTES ? await digestOf(await source.arrayBuffer()) : null,
  };
  // An upload that is created twice costs nothing and ends by itself.
  const again = { repeat: true, signal };
  const created = await requests.ask<CreatedUpload>("POST", "/api/videos/uploads", body, again);
  const patience = new Patience(requests.retrySeconds);
  const to = created.upload;
  // Only a request with a resume key gets parts.
  if (to === null) throw requests.noCallsheet();
  await requests.insist(patience, signal, () =>
    put(to, source, options.onProgress ?? (() => {}), signal, requests.fetch),
  );
  return requests.ask("POST", `/api/videos/uploads/${created.file.id}/confirm`, undefined, again);
}

/** Sends the bytes to the signed URL. In a page, only XMLHttpRequest reports how many bytes it has sent. */
export async function put(
  to: UploadRequest,
  source: Blob,
  onSent: Counted,
  signal: AbortSignal | undefined,
  fetcher: Fetch = fetch,
): Promise<void> {
  const response = await arrived(
    "XMLHttpRequest" in globalThis
      ? sendAsPage(to, source, onSent, signal)
      : sendCounted(to, source, onSent, fetcher, signal),
    signal,
    INTERRUPTED,
  );
  if (!response.ok) throw await refusalOf(response);
  onSent(source.size, source.size);
}

function sendAsPage(
  to: UploadRequest,
  source: Blob,
  onSent: Counted,
  signal: AbortSignal | undefined,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const abort = () => request.abort();
    request.open(to.method, to.url);
    for (const [name, value] of Object.entries(to.headers)) {
      if (!SET_BY_BROWSERS.has(name.toLowerCase())) request.setRequestHeader(name, value);
    }
    request.upload.onprogress = (event) => onSent(event.loaded, event.total || source.size);
    request.onload = () => resolve(new Response(request.responseText || null, { status: request.status }));
    request.onerror = () => reject(new Error(INTERRUPTED));
    request.onabort = () => reject(signal?.reason);
    request.onloadend = () => signal?.removeEventListener("abort", abort);
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) return request.abort();
    request.send(source);
  });
}

/** The request has a length, because signed URLs of S3 accept no chunked body. */
function sendCounted(
  to: UploadRequest,
  source: Blob,
  onSent: Counted,
  fetcher: Fetch,
  signal: AbortSignal | undefined,
): Promise<Response> {
  let sent = 0;
  const counter = new TransformStream<Uint8Array, Uint8Array>({
    transform(piece, controller) {
      sent += piece.length;
      onSent(sent, source.size);
      controller.enqueue(piece);
    },
  });
  const request = {
    method: to.method,
    headers: { ...to.headers, "Content-Length": String(source.size) },
    body: source.stream().pipeThrough(counter),
    signal: signal ?? null,
    duplex: "half",
  };
  return fetcher(to.url, request as RequestInit);
}

/** Downloads a file of a job. */
export async function download(
  requests: Requests,
  output: JobOutput,
  sink: Sink,
  { onProgress, signal }: Pick<UploadOptions, "onProgress" | "signal"> = {},
): Promise<void> {
  let url = output.url;
  if (!url) throw new UnusableFile(`${output.name} cannot be fetched: it no longer exists.`);
  let isFresh = false;
  const patience = new Patience(requests.retrySeconds);
  await requests.insist(patience, signal, async () => {
    try {
      await fetchInto(requests.fetch, url as string, sink, onProgress, signal);
    } catch (error) {
      if (isFresh || !(error instanceof Refusal) || error.status !== FORBIDDEN) throw error;
      // The URL has expired since the job was read.
      isFresh = true;
      url = (await requests.ask<StoredFile>("GET", `/api/files/${output.file_id}`, undefined, { signal })).url ?? url;
      await fetchInto(requests.fetch, url as string, sink, onProgress, signal);
    }
  });
}

async function fetchInto(
  fetcher: Fetch,
  url: string,
  sink: Sink,
  onProgress: Counted | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  const interrupted = "The download was interrupted.";
  const response = await arrived(fetcher(url, { signal: signal ?? null, credentials: "omit" }), signal, interrupted);
  if (!response.ok) throw await refusalOf(response);
  await sink.restart();
  const size = Number(response.headers.get("content-length") ?? 0);
  let got = 0;
  const reader = response.body?.getReader();
  for (;;) {
    const next = await arrived(reader?.read() ?? Promise.resolve(undefined), signal, interrupted);
    if (next?.value === undefined) return;
    await sink.write(next.value);
    got += next.value.length;
    onProgress?.(got, Math.max(got, size));
  }
}

/** Throws if the checksum of a download is not the one that the control plane knows. */
export function check(output: JobOutput, digest: string | null): void {
  if (output.sha256 && digest !== null && digest !== output.sha256)
    throw new UnusableFile(`The download of ${output.name} has a wrong checksum. Try again.`);
}

/** The SHA-256 of the bytes. null on pages without HTTPS, which have no WebCrypto. */
export async function digestOf(bytes: ArrayBuffer): Promise<string | null> {
  if (crypto.subtle === undefined) return null;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A valid file name. A name that is too long is cut before its extension. */
export function shortName(name: string): string {
  const clean = name.replace(/[\u0000-\u001f\u007f]+/g, " ").trim() || "file";
  if (clean.length <= MAX_NAME_LENGTH) return clean;
  const dot = clean.lastIndexOf(".");
  const extension = dot > 0 && clean.length - dot <= MAX_EXTENSION_LENGTH ? clean.slice(dot) : "";
  return clean.slice(0, MAX_NAME_LENGTH - extension.length) + extension;
}

/** The media type of a file, by what its Blob says or by its extension. */
export function mediaType(type: string, name: string): string {
  const found = type || TYPES[name.slice(name.lastIndexOf(".") + 1).toLowerCase()];
  if (found === undefined || !/^(image|video|audio)\//.test(found))
    throw new UnusableFile(
      `${name || "The file"} does not have the extension of a video, image or audio file, for example .mp4 or .png.`,
    );
  return found;
}

function extensionOf(mimeType: string): string {
  return Object.entries(TYPES).find(([, type]) => type === mimeType)?.[0] ?? "bin";
}
