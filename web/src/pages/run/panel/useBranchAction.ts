import { useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { notifyDone } from "@/parts/notify";
import { useAction } from "@/parts/useAction";
import { panelTexts } from "@/texts/runs";

interface Action {
  id: string;
  isKill: boolean;
}

export function useBranchAction(runId: string) {
  const client = useQueryClient();
  return useAction({
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
    changes: [keys.run(runId), keys.runCandidates(runId), keys.runWinners(runId), keys.wallet, keys.runTree(runId)],
  });
}
