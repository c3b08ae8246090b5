import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import { notifyDone, notifyError } from "@/parts/notify";
import { workersTexts } from "@/texts/workers";

export type WorkerAction = "approve" | "drain" | "undrain" | "revoke";

const PATHS = {
  approve: "/api/admin/workers/{worker_id}/approve",
  drain: "/api/admin/workers/{worker_id}/drain",
  undrain: "/api/admin/workers/{worker_id}/undrain",
  revoke: "/api/admin/workers/{worker_id}/revoke",
} as const;

export function useWorkerAction(onDone: () => void = () => undefined) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ id, action }: { id: string; action: WorkerAction }) => api.POST(PATHS[action], { params: { path: { worker_id: id } } }),
    onSuccess: (_, { id, action }) => notifyDone(workersTexts.done[action](id)),
    onError: (error) => notifyError(error),
    onSettled: async () => {
      await client.invalidateQueries({ queryKey: keys.allWorkers });
      onDone();
    },
  });
}
