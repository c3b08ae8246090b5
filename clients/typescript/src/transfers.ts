// Files on their way: uploads to signed URLs, and downloads.
import { freshKey } from "./keys.ts";
import type { CreatedUpload, JobOutput, PartToSign, SignedParts, StoredFile, UploadRequest } from "./models.ts";
import { OtherFile, resumeKeyOf, sendParts } from "./parts.ts";
import { arrived, Patience } from "./patience.ts";
import { Refusal, UnusableFile } from "./problems.ts";
import { type Fetch, type Requests, refusalOf } from "./requests.ts";
import { type Counted, checksumOf, put, shortName } from "./sending.ts";

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
// WebCrypto takes a checksum of bytes that are in memory. A larger file has none.
const MAX_HASHED_BYTES = 64 * 2 ** 20;
const FORBIDDEN = 403;
// A slow disk.
const JOINED_PER_SECOND = 10 * 2 ** 20;

/**
 * Uploads and confirms a file. A large file is sent in parts; the next upload of the same file, also by another program
 * or after a reload, continues the upload.
 */
export async function upload(requests: Requests, source: Blob, options: UploadOptions = {}): Promise<StoredFile> {
  const { signal, onProgress = () => {} } = options;
  const name = options.name ?? (source instanceof File ? source.name : "");
  const mimeType = mediaType(source.type, name);
  if (source.size === 0) throw new UnusableFile(`${name || "The file"} is empty.`);
  const sha256 = source.size <= MAX_HASHED_BYTES ? await checksumOf(source) : null;
  const body = {
    name: shortName(name || `file.${extensionOf(mimeType)}`),
    mime_type: mimeType,
    size: source.size,
    sha256,
    resume_key: sha256 ?? (await resumeKeyOf(source)),
  };
  const once = { idempotencyKey: freshKey(), signal };
  const created = await requests.ask<CreatedUpload>("POST", "/api/videos/uploads", body, once);
  const { id } = created.file;
  try {
    await send(requests, created, source, onProgress, signal);
  } catch (error) {
    if (!(error instanceof OtherFile)) throw error;
    // The name and size are those of the unfinished upload, and the bytes are not.
    await requests.ask("DELETE", `/api/files/${id}`, undefined, { signal });
    return upload(requests, source, options);
  }
  // Parts are joined first.
  const patience = new Patience(requests.retrySeconds + source.size / JOINED_PER_SECOND);
  return requests.insist(patience, signal, () =>
    requests.ask<StoredFile>("POST", `/api/videos/uploads/${id}/confirm`, undefined, { signal }),
  );
}

async function send(
  requests: Requests,
  created: CreatedUpload,
  source: Blob,
  onProgress: Counted,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { upload: to, parts } = created;
  const { retrySeconds } = requests;
  const sent = (address: UploadRequest, bytes: Blob, onSent: Counted, until: AbortSignal | undefined) =>
    put(address, bytes, onSent, refusalOf, until, requests.fetch);
  if (to) return requests.insist(new Patience(retrySeconds), signal, () => sent(to, source, onProgress, signal));
  if (!parts) throw requests.noCallsheet();
  const sign = async (part: PartToSign, until: AbortSignal) => {
    const path = `/api/videos/uploads/${created.file.id}/parts`;
    const signed = await requests.ask<SignedParts>("POST", path, { parts: [part] }, { signal: until });
    return signed.parts[0]?.upload ?? Promise.reject(requests.noCallsheet());
  };
  await sendParts(parts, source, { sign, put: sent, onProgress, retrySeconds }, signal);
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
