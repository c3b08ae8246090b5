// Texts and media of an effect for its card and its page. Pure.
import type { Effect, Shown } from "@/api/types";
import { effectTexts } from "@/texts/effects";
import type { Media } from "./media";

/** Label of a card: "Video", "Image", or "Text to image" if the effect needs no upload. */
export function kindName(effect: Effect): string {
  const made = effect.output.type;
  const name = effectTexts.kinds[made] ?? made;
  if (effect.input == null) return effectTexts.fromText(name);
  return effect.input.type === made ? name : effectTexts.fromTo(effectTexts.kinds[effect.input.type] ?? "", name);
}

export type Readiness = "ready" | "waits" | "unavailable";

export interface WaitLine {
  text: string;
  /** The whole sentence, for places with enough room. */
  sentence?: string;
  readiness: Readiness;
}

/** Expected waiting time in a few words. */
export function waitLine(effect: Effect): WaitLine {
  const wait = effect.wait;
  if (!effect.is_available || wait?.code === "off") return { text: effectTexts.off, readiness: "unavailable" };
  switch (wait?.code) {
    case "no_live_worker":
    case "workers_lack":
      return { text: effectTexts.noWorker, readiness: "unavailable" };
    case "scaling_up":
      return { text: effectTexts.scalingUp, readiness: "waits" };
    case "provider_paused":
      return { text: effectTexts.paused, readiness: "waits" };
    case "queue":
      return {
        text: wait.message.split(";")[0]!.replace(/\.$/, ""),
        sentence: wait.message.replace(/\.$/, ""),
        readiness: "waits",
      };
    default: {
      const seconds = wait?.run_seconds ?? effect.last_processing_time_seconds;
      const total = seconds == null ? null : seconds + (wait?.wait_seconds ?? 0);
      return {
        text: total === null ? effectTexts.readyToStart : effectTexts.readyIn(roughly(total)),
        readiness: "ready",
      };
    }
  }
}

/** Rounds estimated times: 8 s, 25 s, 2 min, 1 h. */
export function roughly(seconds: number): string {
  if (seconds < 10) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 55) return `${Math.ceil(seconds / 5) * 5} s`;
  if (seconds < 55 * 60) return `${Math.max(1, Math.round(seconds / 60))} min`;
  return `${Math.max(1, Math.round(seconds / 3600))} h`;
}

/** The preview in the size of an effect's page; null while it is being made. */
export function exampleMedia(shown: Shown | null | undefined, name: string): Media | null {
  if (!shown) return null;
  const size = { width: shown.width, height: shown.height, name };
  if (shown.preview_url)
    return { kind: "video", url: shown.preview_url, poster: shown.thumbnails?.large ?? shown.poster_url, ...size };
  const image = shown.thumbnails?.large ?? shown.poster_url;
  return image ? { kind: "image", url: image, ...size } : null;
}

/** Effects whose name and description contain every word of the search, in any order. */
export function matches(effect: Effect, search: string): boolean {
  const text = `${effect.name} ${effect.category ?? ""} ${effect.description} ${kindName(effect)}`.toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

/** Each category once, in alphabetical order. */
export function categoriesOf(effects: readonly Effect[]): string[] {
  return [...new Set(effects.map((effect) => effect.category ?? "").filter((name) => name !== ""))].sort((a, b) =>
    a.localeCompare(b),
  );
}
