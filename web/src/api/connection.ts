// State of this tab's connection to the event stream, for the frame to show.
import { useSyncExternalStore } from "react";

export type ConnectionState = "connecting" | "live" | "reconnecting" | "polling";

let state: ConnectionState = "connecting";
const listeners = new Set<() => void>();

export function setConnection(next: ConnectionState): void {
  if (next === state) return;
  state = next;
  for (const listener of listeners) listener();
}

export function connectionState(): ConnectionState {
  return state;
}

export function useConnection(): ConnectionState {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, connectionState);
}
