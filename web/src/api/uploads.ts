// Uploads a file straight to storage: request a signed URL, put the bytes there, let the server check them.
import { OtherFile, resumeKeyOf, sendParts } from "@client/parts";
import { Refusal } from "@client/problems";
import { put as send, shortName } from "@client/sending";
import { api, data } from "./client";
import { readProblem } from "./problems";
import type { Schemas } from "./types";

export type StoredFile = Schemas["File"];
type CreatedUpload = Schemas["CreatedUpload"];

/** A signed URL that expires sooner than this is not used again. */
const MIN_MS_LEFT = 60_000;
const RETRY_SECONDS = 60;

/** The storage refused the bytes. */
export class StorageRefusal extends Refusal {}

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
        await this.#sendParts(path, created.parts, onSent, signal);
      } catch (error) {
        if (!(error instanceof OtherFile)) throw error;
        // The name and size are those of the unfinished upload, and the bytes are not.
        await api.DELETE("/api/files/{file_id}", { params: { path }, signal });
        return this.run(onSent, signal);
      }
    } else if (created.upload) await put({ upload: created.upload }, this.file, onSent, signal);
    return data(api.POST("/api/videos/uploads/{file_id}/confirm", { params: { path }, signal }));
  }

  async #sendParts(
    path: { file_id: string },
    parts: Schemas["UploadParts"],
    onSent: (sent: Sent) => void,
    signal: AbortSignal,
  ): Promise<void> {
    let sent: Sent = { loaded: 0, total: this.file.size };
    const report = (change: Partial<Sent>) => {
      sent = { ...sent, ...change };
      onSent(sent);
    };
    const requests = {
      retrySeconds: RETRY_SECONDS,
      onProgress: (loaded: number) => report({ loaded }),
      onPaused: (isPaused: boolean) => report({ isPaused }),
      put: sendBytes,
      sign: async (part: Schemas["PartToSign"], until: AbortSignal) => {
        const body = { parts: [part] };
        const route = "/api/videos/uploads/{file_id}/parts";
        const signed = await data(api.POST(route, { params: { path }, body, signal: until }));
        return signed.parts[0]!.upload;
      },
    };
    await sendParts(parts, this.file, requests, signal);
  }

  async #address(signal: AbortSignal): Promise<CreatedUpload> {
    const kept = this.#created?.upload;
    if (kept && Date.parse(kept.expires_at) - Date.now() > MIN_MS_LEFT) return this.#created as CreatedUpload;
    const { name, size } = this.file;
    // After a reload the same file has the same key, so what has arrived is not sent again.
    const resume_key = await resumeKeyOf(this.file);
    const body = { name: shortName(name), mime_type: this.mimeType, size, resume_key };
    this.#created = await data(api.POST("/api/videos/uploads", { body, signal }));
    return this.#created;
  }
}

export function put(
  created: { upload: Schemas["UploadRequest"] },
  file: Blob,
  onSent: (sent: Sent) => void,
  signal: AbortSignal,
): Promise<void> {
  return sendBytes(created.upload, file, (loaded, total) => onSent({ loaded, total }), signal);
}

function sendBytes(
  to: Schemas["UploadRequest"],
  bytes: Blob,
  onSent: (loaded: number, total: number) => void,
  signal: AbortSignal,
): Promise<void> {
  return send(to, bytes, onSent, refusalOf, signal);
}

async function refusalOf(response: Response): Promise<StorageRefusal> {
  const { problem, retryAfter } = await readProblem(response);
  return new StorageRefusal(problem, retryAfter);
}
