import { api } from "@/api/client";
import { keys } from "@/api/keys";
import { notifyDone } from "@/parts/notify";
import { useAction } from "@/parts/useAction";
import { workersTexts } from "@/texts/workers";

export type WorkerAction = "approve" | "drain" | "undrain" | "revoke" | "rotate-token";

interface Change {
  id: string;
  action: WorkerAction;
  /** For a revocation: whether the worker's registration token is revoked too. */
  withToken?: boolean;
}

const PATHS = {
  approve: "/api/admin/workers/{worker_id}/approve",
  drain: "/api/admin/workers/{worker_id}/drain",
  undrain: "/api/admin/workers/{worker_id}/undrain",
  "rotate-token": "/api/admin/workers/{worker_id}/rotate-token",
} as const;

function run({ id, action, withToken = false }: Change) {
  const params = { path: { worker_id: id } };
  if (action === "revoke")
    return api.POST("/api/admin/workers/{worker_id}/revoke", { params, body: { with_token: withToken } });
  return api.POST(PATHS[action], { params });
}

export function useWorkerAction(onDone: () => void = () => undefined) {
  return useAction({
    mutationFn: run,
    onSuccess: (_, { id, action }) => notifyDone(workersTexts.done[action](id)),
    changes: [keys.allWorkers],
    onEnd: onDone,
  });
}
