// What lists show instead of an image or video itself. An installation may make none of it. Pure.
import { kindOf } from "./media";

export interface Shown {
  poster_url?: string | null;
  preview_url?: string | null;
  thumbnails?: { small: string; large: string } | null;
  width?: number | null;
  height?: number | null;
}

export function shownOf(file: object | null | undefined): Shown {
  return file ?? {};
}

/** A picture of a file, where there is one: never the video itself. */
export function stillOf(file: { mime_type: string; url?: string | null }, size: "small" | "large"): string | null {
  const shown = shownOf(file);
  return shown.thumbnails?.[size] ?? shown.poster_url ?? (kindOf(file.mime_type) === "image" ? (file.url ?? null) : null);
}
