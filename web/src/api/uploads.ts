// Uploads a file straight to storage: request a signed URL, put the bytes there, let the server check them.
import { api, data } from "./client";
import { NetworkError } from "./problems";
import type { Schemas } from "./types";
import { OtherFile, sendParts } from "./upload-parts";

export type StoredFile = Schemas["File"];
type CreatedUpload = Schemas["CreatedUpload"];

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
  /** Whether the upload waits for the connection. */
  isPaused?: boolean;
}

/** One file on its way. After a failure, `run` may be called again: it continues the same upload. */
export class Upload {
  #created: CreatedUpload | null = null;

  constructor(
    readonly file: File,
    readonly mimeType: string,
  ) {}

  async run(onSent: (sent: Sent) => void, signal: AbortSignal): Promise<StoredFile> {
    const created = await this.#address(signal);
    const path = { file_id: created.file.id };
    if (created.parts) {
      try {
        await sendParts(path, created.parts, this.file, onSent, signal);
      } catch (error) {
        if (!(error instanceof OtherFile)) throw error;
        // The name, size and time are those of the unfinished upload, and the bytes are not.
        await api.DELETE("/api/files/{file_id}", { params: { path }, signal });
        return this.run(onSent, signal);
      }
    } else if (created.upload) await put({ upload: created.upload }, this.file, onSent, signal);
    return data(api.POST("/api/videos/uploads/{file_id}/confirm", { params: { path }, signal }));
  }

  async #address(signal: AbortSignal): Promise<CreatedUpload> {
    const kept = this.#created?.upload;
    if (kept && Date.parse(kept.expires_at) - Date.now() > MIN_MS_LEFT) return this.#created as CreatedUpload;
    const { name, size, lastModified } = this.file;
    // After a reload the same file has the same key, so what has arrived is not sent again. Parts need checksums, which
    // browsers compute only for pages of HTTPS or of this machine.
    const resume_key = window.isSecureContext ? `${shortName(name).slice(0, 150)} ${size} ${lastModified}` : null;
    const body = { name: shortName(name), mime_type: this.mimeType, size, resume_key };
    this.#created = await data(api.POST("/api/videos/uploads", { body, signal }));
    return this.#created;
  }
}

// XMLHttpRequest, because fetch does not report how many bytes were sent.
export function put(
  created: { upload: Schemas["UploadRequest"] },
  file: Blob,
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
