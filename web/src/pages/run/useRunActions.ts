import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { formatTokens } from "@/design";
import { notifyDone, notifyError } from "@/parts/notify";
import { budgetTexts, gateTexts, moreTexts, runTexts } from "@/texts/runs";

const PATHS = {
  pause: "/api/runs/{run_id}/pause",
  resume: "/api/runs/{run_id}/resume",
  cancel: "/api/runs/{run_id}/cancel",
} as const;
const DONE = { pause: runTexts.paused, resume: runTexts.resumed, cancel: runTexts.canceled };

export function useRunAction(id: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (action: keyof typeof PATHS) => data(api.POST(PATHS[action], { params: { path: { run_id: id } } })),
    onSuccess: (run, action) => {
      client.setQueryData(keys.run(id), run);
      notifyDone(DONE[action]);
    },
    onError: (error) => notifyError(error),
    onSettled: () => client.invalidateQueries({ queryKey: keys.allRuns }),
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

/** The caller shows the refusal at the field. */
export function useBudget(id: string, onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (budget: number) =>
      data(api.PATCH("/api/runs/{run_id}", { params: { path: { run_id: id } }, body: { budget } })),
    onSuccess: (run) => {
      client.setQueryData(keys.run(id), run);
      notifyDone(budgetTexts.saved(formatTokens(run.budget)));
      onDone();
    },
    onSettled: () => client.invalidateQueries({ queryKey: keys.allRuns }),
  });
}

/** Sets a larger number of finished candidates and the budget for them. A completed run then continues. */
export function useMakeMore(id: string, onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: { target_leaves: number; budget: number }) =>
      data(api.PATCH("/api/runs/{run_id}", { params: { path: { run_id: id } }, body })),
    onSuccess: (run) => {
      client.setQueryData(keys.run(id), run);
      notifyDone(moreTexts.done(run.target_leaves));
      onDone();
    },
    onSettled: () => client.invalidateQueries({ queryKey: keys.allRuns }),
  });
}

export function useApproval(id: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ slug }: { slug: string; name: string }) =>
      data(api.POST("/api/runs/{run_id}/steps/{step}/approve", { params: { path: { run_id: id, step: slug } } })),
    onSuccess: (_, { name }) => notifyDone(gateTexts.done(name)),
    onError: (error) => notifyError(error),
    onSettled: () => client.invalidateQueries({ queryKey: keys.allRuns }),
  });
}
