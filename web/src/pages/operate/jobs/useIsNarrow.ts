import { useSyncExternalStore } from "react";

// Below this width a row has two more lines. The classes of the row use the same width.
const NARROW = "(max-width: 63.99rem)";

export function useIsNarrow(): boolean {
  return useSyncExternalStore(subscribe, () => window.matchMedia(NARROW).matches);
}

function subscribe(onChange: () => void): () => void {
  const media = window.matchMedia(NARROW);
  media.addEventListener("change", onChange);
  return () => media.removeEventListener("change", onChange);
}
