// Decides which files a field accepts, and explains refusals. Pure.
import type { FileKind } from "@/parts/media";
import { uploadTexts } from "@/texts/upload";

export interface Acceptance {
  kind: FileKind;
  maxBytes?: number | null;
  maxSeconds?: number | null;
  maxPixels?: number | null;
  /** Accepted types of the installation, for example `video/*` or `image/png`. */
  types?: readonly string[];
}

/** Limits that the API reports for the installation. */
export interface InstallationLimits {
  accepted_types: string[];
  max_bytes: number;
  max_image_pixels: number;
}

/** Limits that the API reports for one field. */
export interface OwnLimits {
  accept?: readonly string[];
  max_bytes?: number | null;
  max_seconds?: number | null;
}

/** Limits of a field: those of the installation, reduced by those of the effect. */
export function acceptanceOf(kind: FileKind, own: OwnLimits, limits: InstallationLimits | undefined): Acceptance {
  const types = own.accept && own.accept.length > 0 ? own.accept : limits?.accepted_types;
  const maxBytes = Math.min(own.max_bytes ?? Infinity, limits?.max_bytes ?? Infinity);
  return {
    kind,
    types,
    maxBytes,
    maxSeconds: own.max_seconds,
    maxPixels: kind === "image" ? limits?.max_image_pixels : null,
  };
}

// Types for browsers that do not know the type of a file.
const BY_EXTENSION: Record<string, string> = {
  mp4: "video/mp4",
  m4v: "video/mp4",
  mov: "video/quicktime",
  webm: "video/webm",
  mkv: "video/x-matroska",
  avi: "video/x-msvideo",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  png: "image/png",
  webp: "image/webp",
  gif: "image/gif",
  avif: "image/avif",
  heic: "image/heic",
  tiff: "image/tiff",
  bmp: "image/bmp",
  mp3: "audio/mpeg",
  wav: "audio/wav",
  flac: "audio/flac",
  ogg: "audio/ogg",
  opus: "audio/ogg",
  m4a: "audio/mp4",
  aac: "audio/aac",
};

// Containers of videos in which recorders store sound. Browsers call them videos.
const ALSO_SOUND = new Set(["video/ogg", "video/webm"]);

/** `kind`: the use of the file. */
export function typeOf(file: { name: string; type: string }, kind?: FileKind): string {
  const declared = file.type.split(";")[0]!.trim().toLowerCase();
  if (kind === "audio" && ALSO_SOUND.has(declared)) return declared.replace("video/", "audio/");
  if (declared !== "" && declared !== "application/octet-stream") return declared;
  return BY_EXTENSION[file.name.split(".").pop()?.toLowerCase() ?? ""] ?? "application/octet-stream";
}

/** Value for the `accept` attribute of a file input. */
export function acceptOf({ kind, types }: Acceptance): string {
  const own = (types ?? []).filter((type) => type.startsWith(`${kind}/`));
  return own.length > 0 ? own.join(",") : `${kind}/*`;
}

/** Describes the limits: "MP4, MOV or WebM, up to 500 MB". */
export function accepted({ kind, maxBytes, maxSeconds, types }: Acceptance): string {
  const named = (types ?? [])
    .filter((type) => type.startsWith(`${kind}/`) && !type.endsWith("/*"))
    .map((type) => type.slice(kind.length + 1).toUpperCase());
  const parts = [named.length > 0 ? list(named) : uploadTexts.formats[kind]];
  if (maxBytes && Number.isFinite(maxBytes)) parts.push(uploadTexts.upTo(bytes(maxBytes)));
  if (maxSeconds) parts.push(uploadTexts.atMost(seconds(maxSeconds)));
  return parts.join(", ");
}

/** The reason why the field refuses this file, and what it accepts; null if only the content could be wrong. */
export function refusal(file: { name: string; type: string; size: number }, wanted: Acceptance): string | null {
  const type = typeOf(file, wanted.kind);
  const isKind = type.startsWith(`${wanted.kind}/`);
  const isAllowed =
    !wanted.types ||
    wanted.types.length === 0 ||
    wanted.types.some((each) => each === type || (each.endsWith("/*") && type.startsWith(each.slice(0, -1))));
  if (!isKind || !isAllowed) return wrongFile(file.name, wanted);
  if (file.size === 0) return uploadTexts.empty(file.name);
  if (wanted.maxBytes && file.size > wanted.maxBytes)
    return uploadTexts.tooLarge(file.name, bytes(file.size), accepted(wanted));
  return null;
}

export const HEAD_BYTES = 512;

/** Images, videos and sounds never begin with readable characters only, whatever the file name says. */
export function looksLikeText(type: string, head: Uint8Array): boolean {
  return (
    !type.endsWith("+xml") &&
    head.every((byte) => (byte >= 32 && byte < 127) || byte === 9 || byte === 10 || byte === 13)
  );
}

/** The refusal of a file whose type or bytes do not match the field. */
export function wrongFile(name: string, wanted: Acceptance): string {
  return uploadTexts.wrongType(name, uploadTexts.kinds[wanted.kind], accepted(wanted));
}

export interface Measured {
  width?: number;
  height?: number;
  seconds?: number;
}

/** The refusal for values that are known after the browser has read the file. */
export function measuredRefusal(name: string, found: Measured, wanted: Acceptance): string | null {
  if (wanted.maxSeconds && found.seconds !== undefined && found.seconds > wanted.maxSeconds + 0.5) {
    return uploadTexts.tooLong(name, seconds(found.seconds), accepted(wanted));
  }
  if (wanted.maxPixels && found.width && found.height && found.width * found.height > wanted.maxPixels) {
    return uploadTexts.tooManyPixels(name, found.width, found.height, Math.floor(wanted.maxPixels / 1e6));
  }
  return null;
}

/** Formats 1.5 GB, 340 MB, 12 kB: powers of 1,000, as stores and systems count them. */
export function bytes(size: number): string {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const step = size < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(size) / 3));
  const value = size / 1000 ** step;
  return `${step === 0 || value >= 100 ? Math.round(value) : Number(value.toFixed(1))} ${units[step]}`;
}

export function seconds(count: number): string {
  const whole = Math.round(count);
  return whole < 60
    ? `${Number(count.toFixed(1))} s`
    : `${Math.floor(whole / 60)} min${whole % 60 ? ` ${whole % 60} s` : ""}`;
}

function list(names: readonly string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}
