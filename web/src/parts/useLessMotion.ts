import { useSyncExternalStore } from "react";

const asked = window.matchMedia("(prefers-reduced-motion: reduce)");

/** Whether the system asks for less motion. It may change while the page is open. */
export function useLessMotion(): boolean {
  return useSyncExternalStore(subscribe, () => asked.matches);
}

function subscribe(onChange: () => void): () => void {
  asked.addEventListener("change", onChange);
  return () => asked.removeEventListener("change", onChange);
}
