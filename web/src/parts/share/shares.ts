import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { notify, notifyError } from "@/parts/notify";
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
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas["CreateShareLink"]) =>
      data(api.POST("/api/ai-jobs/{job_id}/shares", { params: { path: { job_id: jobId } }, body })),
    onSuccess: () => client.invalidateQueries({ queryKey: keys.shares(jobId) }),
  });
}

export function useRevokeLink(jobId: string, onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (shareId: string) =>
      api.DELETE("/api/ai-jobs/{job_id}/shares/{share_id}", { params: { path: { job_id: jobId, share_id: shareId } } }),
    onSuccess: () => notify(shareTexts.revoked),
    onError: (error) => notifyError(error),
    onSettled: async () => {
      await client.invalidateQueries({ queryKey: keys.shares(jobId) });
      onDone();
    },
  });
}
