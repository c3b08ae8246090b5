import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Effect } from "@/api/types";
import { type FormValues, payloadOf } from "@/parts/form/values";
import type { FileValue } from "@/parts/UploadField";
import { useDebounced } from "@/parts/useDebounced";

export const SETTLE_MS = 300;
// A file is measured within some seconds after its upload.
export const MEASURE_MS = 2000;
const NOT_MEASURED = "file_not_measured";

export interface LivePrice {
  /** null while it is not known. */
  cost: number | null;
  /** The price depends on a file that the server is measuring. */
  isMeasuring: boolean;
  /** The values have changed, and the price of the new ones is on its way. */
  isOld: boolean;
}

/** The price of the job that the form describes now. Only a formula needs the server for it. */
export function useQuote(effect: Effect, input: FileValue | null, values: FormValues): LivePrice {
  const isCalculated = Boolean(effect.price_formula);
  const request = JSON.stringify({
    effect_id: effect.slug,
    input_file_id: input?.id,
    input_payload: payloadOf(effect.properties, values),
  });
  const settled = useDebounced(request, SETTLE_MS);
  const quote = useQuery({
    queryKey: keys.quote(settled),
    queryFn: ({ signal }) => data(api.POST("/api/quotes", { body: { effect: JSON.parse(settled) }, signal })),
    enabled: isCalculated,
    placeholderData: keepPreviousData,
    retry: false,
    refetchInterval: ({ state }) => (isMeasured(state.data?.missing) ? false : MEASURE_MS),
  });
  if (!isCalculated) return { cost: effect.credits_cost, isMeasuring: false, isOld: false };
  return {
    cost: quote.data?.cost ?? null,
    isMeasuring: !isMeasured(quote.data?.missing),
    isOld: quote.isPlaceholderData || settled !== request,
  };
}

export function isMeasured(missing: readonly { code: string }[] = []): boolean {
  return missing.every((each) => each.code !== NOT_MEASURED);
}
