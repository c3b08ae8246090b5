import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import { keys } from "@/api/keys";
import { refetch, useCatchUp, useJobEvents } from "@/api/live";

// A batch of 1,000 items has thousands of events.
const GATHER_MS = 1_000;

/** Refetches the list soon after a job has changed, at most once per second. */
export function useLiveBatches(): void {
  const client = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const soon = useCallback(() => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      void refetch(client, keys.batchLists);
    }, GATHER_MS);
  }, [client]);
  useJobEvents(soon);
  useCatchUp(soon);
  useEffect(() => () => clearTimeout(timer.current), []);
}
