import { type QueryKey, useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { IdempotencyKey } from "@/api/idempotency";

interface Submission<Input, Result> {
  send: (input: Input, key: IdempotencyKey) => Promise<Result>;
  /** Keys of the queries whose data the request changes. */
  changes: readonly QueryKey[];
  onSuccess: (result: Result) => unknown;
}

/** A request that costs tokens: it is sent once, however often the user presses the button. */
export function useSubmission<Input, Result>({ send, changes, onSuccess }: Submission<Input, Result>) {
  const client = useQueryClient();
  const key = useRef(new IdempotencyKey());
  const isBusy = useRef(false);
  const mutation = useMutation<Result, Error, Input>({
    mutationFn: (input) => send(input, key.current),
    onSuccess: (result) => {
      for (const queryKey of changes) void client.invalidateQueries({ queryKey });
      return onSuccess(result);
    },
    onSettled: (_result, error) => {
      key.current.settle(error);
      isBusy.current = false;
    },
  });
  return {
    ...mutation,
    /** Two clicks within one frame count as one, because the busy button is drawn only after the first. */
    submit: (...input: Parameters<typeof mutation.mutate>) => {
      if (isBusy.current) return;
      isBusy.current = true;
      mutation.mutate(...input);
    },
  };
}
