import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { api, data } from "@/api/client";
import { IdempotencyKey } from "@/api/idempotency";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { forget } from "@/parts/job/useLiveList";
import { notify, notifyError } from "@/parts/notify";
import { jobsTexts } from "@/texts/jobs";

export type BulkAction = "cancel" | "retry" | "delete";
type Outcome = Schemas["JobOutcome"];
const MAX_AT_ONCE = 100;

/**
 * Changes several jobs. The API takes a hundred per request, so more are sent in sequence. If a response is lost, the
 * next press has the same keys: no job is charged twice for it.
 */
export function useBulk(onDone: () => void) {
  const client = useQueryClient();
  const idempotencyKey = useRef(new IdempotencyKey());
  return useMutation({
    mutationFn: async ({ action, ids }: { action: BulkAction; ids: string[] }) => {
      const outcomes: Outcome[] = [];
      const key = idempotencyKey.current.of({ action, ids });
      for (let from = 0; from < ids.length; from += MAX_AT_ONCE) {
        const body = { job_ids: ids.slice(from, from + MAX_AT_ONCE) };
        const header = { "idempotency-key": `${key}-${from}` };
        const call =
          action === "retry"
            ? api.POST("/api/library/retry", { body, params: { header } })
            : api.POST(`/api/library/${action}`, { body });
        outcomes.push(...(await data(call)).items);
      }
      return outcomes;
    },
    onSuccess: (outcomes, { action }) => {
      const done = outcomes.filter((each) => each.outcome === "done");
      const refused = outcomes.filter((each) => each.outcome === "refused");
      if (action === "delete")
        forget(
          client,
          outcomes.filter((each) => each.outcome !== "refused").map((each) => each.job_id),
        );
      if (done.length > 0) void notify(jobsTexts.outcome(done.length, jobsTexts.done[action]));
      if (refused.length > 0) void notifyError(new Error(jobsTexts.refused(refused.length, refused[0]?.message ?? "")));
      for (const queryKey of [keys.wallet, keys.activeJobs, keys.allCounts])
        void client.invalidateQueries({ queryKey });
      onDone();
    },
    onError: (error) => notifyError(error),
    onSettled: (_outcomes, error) => idempotencyKey.current.settle(error),
  });
}
