import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "./problems";

const MAX_RETRIES = 3;

/**
 * A refusal is never retried: the response would be the same. A server that restarts or limits requests is retried. A
 * server that fails and names a delay is retried once after that delay: three times five seconds is too long to show
 * nothing.
 */
export function shouldRetry(failures: number, error: unknown): boolean {
  if (!(error instanceof ApiError)) return failures < MAX_RETRIES;
  if (error.status >= 500) return failures < (error.retryAfter === null ? MAX_RETRIES : 1);
  return error.status === 429 && failures < MAX_RETRIES;
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
