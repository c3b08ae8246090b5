// What lists show instead of a file itself. An installation may make none of it. Pure.
import type { Schemas } from "@/api/types";
import { kindOf } from "./media";

type Pictured = Pick<Schemas["ListedFile"], "mime_type" | "url" | "thumbnails" | "poster_url">;

/** An image of a file, where there is one: never the video itself. Of a sound it is the waveform. */
export function stillOf(file: Pictured, size: "small" | "large"): string | null {
  return file.thumbnails?.[size] ?? file.poster_url ?? (kindOf(file.mime_type) === "image" ? (file.url ?? null) : null);
}
