// Images that lists show instead of a file. An installation may make none. Pure.
import type { Schemas } from "@/api/types";
import { kindOf } from "./media";

type FileWithImages = Pick<Schemas["ListedFile"], "mime_type" | "url" | "thumbnails" | "poster_url">;

/** An image of a file, if there is one, but never the video itself. The image of a sound is its waveform. */
export function stillOf(file: FileWithImages, size: "small" | "large"): string | null {
  return file.thumbnails?.[size] ?? file.poster_url ?? (kindOf(file.mime_type) === "image" ? (file.url ?? null) : null);
}
