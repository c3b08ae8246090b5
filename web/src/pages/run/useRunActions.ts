import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { notifyDone } from "@/parts/notify";
import { useAction, useSave } from "@/parts/useAction";
import { gateTexts, runTexts } from "@/texts/runs";
import type { Run } from "./queries";

const PATHS = {
  pause: "/api/runs/{run_id}/pause",
  resume: "/api/runs/{run_id}/resume",
  cancel: "/api/runs/{run_id}/cancel",
} as const;
const DONE = { pause: runTexts.paused, resume: runTexts.resumed, cancel: runTexts.canceled };

export function useRunAction(id: string) {
  const client = useQueryClient();
  return useAction({
    mutationFn: (action: keyof typeof PATHS) => data(api.POST(PATHS[action], { params: { path: { run_id: id } } })),
    changes: [keys.allRuns],
    onSuccess: (run, action) => {
      client.setQueryData(keys.run(id), run);
      notifyDone(DONE[action]);
    },
  });
}

export function useRunDeletion(id: string, onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => api.DELETE("/api/runs/{run_id}", { params: { path: { run_id: id } } }),
    onSuccess: async () => {
      notifyDone(runTexts.deleted);
      onDone();
      // The page closes, because the run no longer exists.
      client.removeQueries({ queryKey: keys.run(id) });
      await client.invalidateQueries({ queryKey: keys.allRuns });
    },
  });
}

/**
 * Changes the budget and the number of finished candidates. A completed run with a larger number continues. The dialog
 * shows a refusal.
 */
export function useChangeRun(id: string, messageOf: (run: Run) => string, onDone: () => void) {
  const client = useQueryClient();
  return useSave({
    mutationFn: (body: { target_leaves?: number; budget: number }) =>
      data(api.PATCH("/api/runs/{run_id}", { params: { path: { run_id: id } }, body })),
    changes: [keys.allRuns],
    onSuccess: (run) => {
      client.setQueryData(keys.run(id), run);
      notifyDone(messageOf(run));
      onDone();
    },
  });
}

export function useApproval(id: string) {
  return useAction({
    mutationFn: ({ slug }: { slug: string; name: string }) =>
      data(api.POST("/api/runs/{run_id}/steps/{step}/approve", { params: { path: { run_id: id, step: slug } } })),
    changes: [keys.allRuns],
    onSuccess: (_, { name }) => notifyDone(gateTexts.done(name)),
  });
}
