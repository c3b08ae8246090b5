import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { notify } from "@/parts/notify";
import { useAction, useSave } from "@/parts/useAction";
import { shareTexts } from "@/texts/share";

export type ShareLink = Schemas["ShareLink"];
const MAX_LINKS = 100;

export const shareLinksQuery = (jobId: string) =>
  queryOptions({
    queryKey: keys.shares(jobId),
    queryFn: async ({ signal }) =>
      (
        await data(
          api.GET("/api/ai-jobs/{job_id}/shares", {
            params: { path: { job_id: jobId }, query: { limit: MAX_LINKS } },
            signal,
          }),
        )
      ).items,
  });

export function useCreateLink(jobId: string) {
  return useSave({
    mutationFn: (body: Schemas["CreateShareLink"]) =>
      data(api.POST("/api/ai-jobs/{job_id}/shares", { params: { path: { job_id: jobId } }, body })),
    changes: [keys.shares(jobId)],
  });
}

export function useRevokeLink(jobId: string, onDone: () => void) {
  return useAction({
    mutationFn: (shareId: string) =>
      api.DELETE("/api/ai-jobs/{job_id}/shares/{share_id}", { params: { path: { job_id: jobId, share_id: shareId } } }),
    onSuccess: () => notify(shareTexts.revoked),
    changes: [keys.shares(jobId)],
    onEnd: onDone,
  });
}
