import { api } from "@/api/client";
import { keys } from "@/api/keys";
import { notifyDone } from "@/parts/notify";
import { useAction } from "@/parts/useAction";
import { operatorJobTexts as texts } from "@/texts/operator-job";

const PATHS = { retry: "/api/admin/jobs/{job_id}/retry", cancel: "/api/admin/jobs/{job_id}/cancel" } as const;

export function useOperatorAction(id: string, action: keyof typeof PATHS, onDone: () => void) {
  return useAction({
    mutationFn: () => api.POST(PATHS[action], { params: { path: { job_id: id } }, body: {} }),
    onSuccess: () => notifyDone(action === "retry" ? texts.replayed : texts.canceled),
    changes: [keys.operatorJob(id), keys.waterfall(id)],
    onEnd: onDone,
  });
}
