// Uploads a file straight to storage: request a signed URL, put the bytes there, let the server check them.
import { api, data } from "./client";
import { NetworkError } from "./problems";
import type { Schemas } from "./types";

export type StoredFile = Schemas["File"];
/** An upload by one request. */
type CreatedUpload = Schemas["CreatedUpload"] & { upload: Schemas["UploadRequest"] };

/** A signed URL that expires sooner than this is not used again. */
const MIN_MS_LEFT = 60_000;
// The browser sets these headers itself and refuses them from a page.
const FORBIDDEN = new Set(["content-length", "host"]);

export class UploadBroken extends Error {
  constructor(readonly status: number | null) {
    super(status === null ? "The connection was lost." : `The storage refused the upload (${status}).`);
    this.name = "UploadBroken";
  }
}

export interface Sent {
  loaded: number;
  total: number;
}

/** One file on its way. After a failure, `run` may be called again: it continues the same upload with the same URL. */
export class Upload {
  #created: CreatedUpload | null = null;

  constructor(
    readonly file: File,
    readonly mimeType: string,
  ) {}

  async run(onSent: (sent: Sent) => void, signal: AbortSignal): Promise<StoredFile> {
    const created = await this.#address(signal);
    await put(created, this.file, onSent, signal);
    return data(
      api.POST("/api/videos/uploads/{file_id}/confirm", { params: { path: { file_id: created.file.id } }, signal }),
    );
  }

  async #address(signal: AbortSignal): Promise<CreatedUpload> {
    const kept = this.#created;
    if (kept !== null && Date.parse(kept.upload.expires_at) - Date.now() > MIN_MS_LEFT) return kept;
    const body = { name: shortName(this.file.name), mime_type: this.mimeType, size: this.file.size };
    const created = await data(api.POST("/api/videos/uploads", { body, signal }));
    // Only a request with a resume key gets parts.
    if (created.upload === null) throw new UploadBroken(null);
    this.#created = { ...created, upload: created.upload };
    return this.#created;
  }
}

// XMLHttpRequest, because fetch does not report how many bytes were sent.
export function put(
  created: Pick<CreatedUpload, "upload">,
  file: File,
  onSent: (sent: Sent) => void,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const abort = () => request.abort();
    request.open(created.upload.method, created.upload.url);
    for (const [name, value] of Object.entries(created.upload.headers)) {
      if (!FORBIDDEN.has(name.toLowerCase())) request.setRequestHeader(name, value);
    }
    request.upload.onprogress = (event) => onSent({ loaded: event.loaded, total: event.total || file.size });
    request.onload = () =>
      request.status >= 200 && request.status < 300 ? resolve() : reject(new UploadBroken(request.status));
    request.onerror = () => reject(navigator.onLine ? new UploadBroken(null) : new NetworkError());
    request.onabort = () => reject(signal.reason ?? new DOMException("Aborted", "AbortError"));
    request.onloadend = () => signal.removeEventListener("abort", abort);
    signal.addEventListener("abort", abort);
    if (signal.aborted) return request.abort();
    request.send(file);
  });
}

const MAX_NAME_LENGTH = 200;

/** A valid file name. A name that is too long is cut before its extension. */
export function shortName(name: string): string {
  const clean = name.replace(/[\u0000-\u001f\u007f]+/g, " ").trim() || "file";
  if (clean.length <= MAX_NAME_LENGTH) return clean;
  const dot = clean.lastIndexOf(".");
  const extension = dot > 0 && clean.length - dot <= 12 ? clean.slice(dot) : "";
  return clean.slice(0, MAX_NAME_LENGTH - extension.length) + extension;
}
