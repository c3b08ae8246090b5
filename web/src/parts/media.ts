// Files in the form that players and lists need. Pure.
export type FileKind = "image" | "video" | "audio";
export type MediaKind = FileKind | "text" | "other";

const FILE_KINDS: readonly string[] = ["image", "video", "audio"] satisfies FileKind[];

/** Whether a property of this type takes a file. */
export function isFileType(type: string): type is FileKind {
  return FILE_KINDS.includes(type);
}

export interface Media {
  kind: MediaKind;
  url: string;
  name?: string;
  /** A frame to show until the video plays, or the waveform of a sound. */
  poster?: string | null;
  width?: number | null;
  height?: number | null;
}

/** The parts of an input or output in the API that a player needs. */
export interface ShownFile {
  url?: string | null;
  name?: string;
  mime_type: string;
  poster_url?: string | null;
  width?: number | null;
  height?: number | null;
}

export const DEFAULT_RATIO = 16 / 9;
// A box that is longer or flatter than this shows its media with bars beside it.
const FLATTEST = 3;
const TALLEST = 9 / 16;

export function kindOf(mimeType: string): MediaKind {
  const [kind] = mimeType.split("/");
  if (kind === "image" || kind === "video" || kind === "audio" || kind === "text") return kind;
  return mimeType.startsWith("application/json") ? "text" : "other";
}

/** null if the file is unreadable, for example because it was deleted. */
export function mediaOf(file: ShownFile): Media | null {
  if (!file.url) return null;
  return {
    kind: kindOf(file.mime_type),
    url: file.url,
    name: file.name,
    poster: file.poster_url,
    width: file.width,
    height: file.height,
  };
}

/** Width by height of the box of a medium. It is the same before and after loading. */
export function ratioOf(...media: ({ width?: number | null; height?: number | null } | null | undefined)[]): number {
  const known = media.find((each) => each?.width && each.height);
  if (!known?.width || !known.height) return DEFAULT_RATIO;
  return Math.min(FLATTEST, Math.max(TALLEST, known.width / known.height));
}

/** Formats a position: 0:07, 1:02, 1:00:05. */
export function clock(seconds: number): string {
  const whole = Number.isFinite(seconds) ? Math.max(0, Math.floor(seconds)) : 0;
  const two = (value: number) => String(value).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}
