import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { notifyDone, notifyError } from "@/parts/notify";
import { panelTexts } from "@/texts/runs";

interface Action {
  id: string;
  isKill: boolean;
}

export function useBranchAction(runId: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async ({ id, isKill }: Action) => {
      const params = { params: { path: { candidate_id: id } } };
      if (!isKill) {
        const restored = await data(api.POST("/api/candidates/{candidate_id}/restore", params));
        return { candidate: restored.candidate, text: panelTexts.restored(restored.restored) };
      }
      const killed = await data(api.POST("/api/candidates/{candidate_id}/kill", params));
      const text =
        killed.canceled_jobs > 0
          ? panelTexts.killed(killed.rejected, killed.canceled_jobs)
          : panelTexts.killedFree(killed.rejected);
      return { candidate: killed.candidate, text };
    },
    onSuccess: ({ candidate, text }) => {
      client.setQueryData(keys.candidate(candidate.id), candidate);
      notifyDone(text);
    },
    onError: (error) => notifyError(error),
    onSettled: async () => {
      for (const queryKey of [keys.run(runId), keys.runCandidates(runId), keys.runWinners(runId), keys.wallet])
        void client.invalidateQueries({ queryKey });
      await client.invalidateQueries({ queryKey: keys.runTree(runId) });
    },
  });
}
