import { useRef } from "react";
import type { Schemas } from "@/api/types";
import { type SteadyUrls, steady } from "@/parts/steady-urls";

type Run = Schemas["RunItem"];

/**
 * Every response has new signed URLs. An image keeps its URL until that expires, or the browser would load it again.
 */
export function useSteadyWinners(runs: readonly Run[]): Run[] {
  const kept = useRef<SteadyUrls>(new Map());
  return runs.map((run) => ({ ...run, winners: run.winners?.map((winner) => steady(kept.current, winner)) }));
}
