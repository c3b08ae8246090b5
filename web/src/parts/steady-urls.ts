// Keeps signed URLs of candidates until they expire, or the browser would load each image again. Pure.
import type { Schemas } from "@/api/types";

type Candidate = Schemas["Candidate"];
type Files = Pick<Candidate, "file" | "thumbnail">;
export type SteadyUrls = Map<string, Files>;
const SPARE_MS = 60_000;

export function steady(kept: SteadyUrls, candidate: Candidate, now = Date.now()): Candidate {
  const before = kept.get(candidate.id);
  const isSame =
    before?.file?.id === candidate.file?.id &&
    before?.thumbnail?.id === candidate.thumbnail?.id &&
    before?.file?.preview_status === candidate.file?.preview_status;
  const expires = before?.file?.url_expires_at;
  if (before && isSame && expires && Date.parse(expires) - now > SPARE_MS) return { ...candidate, ...before };
  kept.set(candidate.id, { file: candidate.file, thumbnail: candidate.thumbnail });
  return candidate;
}
