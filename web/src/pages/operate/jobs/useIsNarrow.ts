import { useSyncExternalStore } from "react";

// The width below which a row has two more lines, as in the classes of the row.
const NARROW = "(max-width: 63.99rem)";

export function useIsNarrow(): boolean {
  return useSyncExternalStore(subscribe, () => window.matchMedia(NARROW).matches);
}

function subscribe(onChange: () => void): () => void {
  const media = window.matchMedia(NARROW);
  media.addEventListener("change", onChange);
  return () => media.removeEventListener("change", onChange);
}
