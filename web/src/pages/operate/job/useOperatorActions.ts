import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import { notifyDone, notifyError } from "@/parts/notify";
import { operatorJobTexts as texts } from "@/texts/operator-job";

const PATHS = { retry: "/api/admin/jobs/{job_id}/retry", cancel: "/api/admin/jobs/{job_id}/cancel" } as const;

export function useOperatorAction(id: string, action: keyof typeof PATHS, onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => api.POST(PATHS[action], { params: { path: { job_id: id } }, body: {} }),
    onSuccess: () => notifyDone(action === "retry" ? texts.replayed : texts.canceled),
    onError: (error) => notifyError(error),
    onSettled: async () => {
      await Promise.all(
        [keys.operatorJob(id), keys.waterfall(id)].map((queryKey) => client.invalidateQueries({ queryKey })),
      );
      onDone();
    },
  });
}
