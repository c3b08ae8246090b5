// Bytes on their way to a signed URL. It is the same in the client and in the web application.
import type { UploadRequest } from "./models.ts";
import { arrived } from "./patience.ts";
import { Unreachable, UnusableFile } from "./problems.ts";
import type { Fetch } from "./requests.ts";

/** Called with the bytes so far and the size of the whole. */
export type Counted = (done: number, total: number) => void;

const MAX_NAME_LENGTH = 200;
const MAX_EXTENSION_LENGTH = 12;
// Browsers set these headers themselves and refuse them from a page.
const SET_BY_BROWSERS = new Set(["content-length", "host"]);
const BROKEN = 500;
const INTERRUPTED = "The upload was interrupted.";

/** Sends the bytes to the signed URL. In a page, only XMLHttpRequest reports how many bytes it has sent. */
export async function put(
  to: UploadRequest,
  source: Blob,
  onSent: Counted,
  refusalOf: (response: Response) => Promise<Error>,
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
  // Object stores return it for what passes.
  if (response.status === BROKEN) throw new Unreachable("The storage returned the status 500.");
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

/** The SHA-256 of a file that fits into memory. null on pages without HTTPS. */
export async function checksumOf(file: Blob): Promise<string | null> {
  try {
    return await digestOf(await file.arrayBuffer());
  } catch (error) {
    throw new UnusableFile("The file cannot be read. It was perhaps changed or moved.", { cause: error });
  }
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
