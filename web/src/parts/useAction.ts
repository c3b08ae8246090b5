import { type QueryKey, type UseMutationOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { notifyError } from "./notify";

interface Action<Result, Input> extends Omit<UseMutationOptions<Result, Error, Input>, "onSettled"> {
  /** Keys of the queries whose data the request changes. */
  changes?: readonly QueryKey[];
  /** Called after these queries are fresh, for example to close a dialog. */
  onDone?: (result: Result, input: Input) => void;
}

/** A request that a button sends. A message shows a refusal. `onEnd` is called after a success and after a refusal. */
export function useAction<Result, Input = void>({
  changes = [],
  onEnd,
  ...options
}: Omit<Action<Result, Input>, "onDone"> & { onEnd?: () => void }) {
  const refresh = useRefresh(changes);
  return useMutation<Result, Error, Input>({
    onError: (error) => notifyError(error),
    onSettled: async () => {
      await refresh();
      onEnd?.();
    },
    ...options,
  });
}

/** A request of a form or a dialog, which shows the refusal itself and stays open. */
export function useSave<Result, Input = void>({ changes = [], onDone, onSuccess, ...options }: Action<Result, Input>) {
  const refresh = useRefresh(changes);
  return useMutation<Result, Error, Input>({
    onSuccess: async (...given) => {
      void onSuccess?.(...given);
      await refresh();
      onDone?.(given[0], given[1]);
    },
    ...options,
  });
}

function useRefresh(changes: readonly QueryKey[]) {
  const client = useQueryClient();
  return () => Promise.all(changes.map((queryKey) => client.invalidateQueries({ queryKey })));
}
