import { type QueryClient, useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Job } from "@/api/types";
import { notify, notifyError } from "@/parts/notify";
import { jobTexts } from "@/texts/job";

const fail = (error: unknown) => notifyError(error);

export function useCancelJob(id: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => data(api.POST("/api/ai-jobs/{job_id}/cancel", { params: { path: { job_id: id } } })),
    onSuccess: (job) => show(client, job),
    onError: (error) => {
      // The job may have ended in the meantime. The page then shows that.
      void client.invalidateQueries({ queryKey: keys.job(id) });
      fail(error);
    },
  });
}

export function useRetryJob(id: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => data(api.POST("/api/ai-jobs/{job_id}/retry", { params: { path: { job_id: id } } })),
    onSuccess: (job) => {
      show(client, job);
      void notify(jobTexts.retried);
    },
    onError: fail,
  });
}

export function useDeleteJob(id: string) {
  const client = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: () => api.DELETE("/api/ai-jobs/{job_id}", { params: { path: { job_id: id } } }),
    onSuccess: async () => {
      await navigate({ to: "/jobs" });
      client.removeQueries({ queryKey: keys.job(id) });
      client.removeQueries({ queryKey: keys.libraries });
      void client.invalidateQueries({ queryKey: keys.allCounts });
      void notify(jobTexts.removed);
    },
    onError: fail,
  });
}

function show(client: QueryClient, job: Job): void {
  client.setQueryData(keys.job(job.id), job);
  for (const queryKey of [keys.jobEvents(job.id), keys.wallet, keys.activeJobs])
    void client.invalidateQueries({ queryKey });
}
