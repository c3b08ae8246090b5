// Applies the events of a run to the data of its tabs, without repeated reads of a large tree.
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { keys } from "@/api/keys";
import { appended, fingerprint } from "./news";
import { fetchTree, type Run, type TreeNode } from "./queries";

// Up to this size the whole tree is refetched, because its ratings and jobs in progress change too.
const SMALL_TREE = 600;
const WHOLE_TREE_MS = 30_000;
const MAX_PAGES = 2;
type Pages = { pages: unknown[] };

export function useRunNews(run: Run): void {
  const client = useQueryClient();
  const seen = useRef(fingerprint(run));
  const wholeAt = useRef(Date.now());
  const now = fingerprint(run);
  useEffect(() => {
    if (seen.current === now) return;
    seen.current = now;
    for (const queryKey of [keys.runWinners(run.id), keys.runGates(run.id), keys.runSpending(run.id)])
      void client.invalidateQueries({ queryKey });
    // A gallery that the user has scrolled through is not refetched as a whole.
    void client.invalidateQueries({
      queryKey: keys.runCandidates(run.id),
      predicate: ({ state }) => ((state.data as Pages | undefined)?.pages.length ?? 0) <= MAX_PAGES,
    });
    const known = client.getQueryData<TreeNode[]>(keys.runTree(run.id));
    if (known === undefined) return;
    if (known.length <= SMALL_TREE || Date.now() - wholeAt.current > WHOLE_TREE_MS) {
      wholeAt.current = Date.now();
      void client.invalidateQueries({ queryKey: keys.runTree(run.id) });
    } else if (run.candidates > known.length) {
      void fetchTree(run.id, known.at(-1)?.number ?? 0)
        .then((nodes) =>
          client.setQueryData<TreeNode[]>(keys.runTree(run.id), (before) => appended(before ?? [], nodes)),
        )
        // The next refetch finds these candidates.
        .catch(() => undefined);
    }
  }, [client, now, run]);
}
