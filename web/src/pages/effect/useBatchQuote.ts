import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Effect } from "@/api/types";
import { useDebounced } from "@/parts/useDebounced";
import type { BatchBody } from "./useGenerateBatch";
import { isMeasured, type LivePrice, MEASURE_MS, SETTLE_MS } from "./useQuote";

/** The price of all jobs. Only a formula needs the server for it. `body` is null while it cannot be submitted. */
export function useBatchQuote(effect: Effect, body: BatchBody | null, jobs: number): LivePrice {
  const isCalculated = Boolean(effect.price_formula);
  const request = JSON.stringify(body);
  const settled = useDebounced(request, SETTLE_MS);
  const isAsked = isCalculated && settled !== "null";
  const quote = useQuery({
    queryKey: keys.quote(settled),
    queryFn: ({ signal }) => data(api.POST("/api/quotes", { body: { batch: JSON.parse(settled) }, signal })),
    enabled: isAsked,
    placeholderData: keepPreviousData,
    retry: false,
    refetchInterval: ({ state }) => (isMeasured(state.data?.missing) ? false : MEASURE_MS),
  });
  if (!isCalculated) return { cost: effect.credits_cost * jobs, isMeasuring: false, isOld: false };
  return {
    cost: isAsked && body !== null ? (quote.data?.cost ?? null) : null,
    isMeasuring: isAsked && !isMeasured(quote.data?.missing),
    isOld: isAsked && (quote.isPlaceholderData || settled !== request),
  };
}
