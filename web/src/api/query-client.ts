import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "./problems";

const MOST_RETRIES = 3;

/** A refusal stays one however often it is asked; a server that restarts or limits its callers comes back. */
function shouldRetry(failures: number, error: unknown): boolean {
  if (failures >= MOST_RETRIES) return false;
  return !(error instanceof ApiError) || error.status >= 500 || error.status === 429;
}

function retryDelay(failures: number, error: unknown): number {
  if (error instanceof ApiError && error.retryAfter !== null) return error.retryAfter * 1000;
  return Math.min(500 * 2 ** failures, 8_000);
}

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: { retry: shouldRetry, retryDelay, staleTime: 10_000, refetchOnWindowFocus: true },
    mutations: { retry: false },
  },
});
