import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { toast } from "sonner";
import { api } from "@/api/client";
import { explain, hasStatus } from "@/api/problems";
import { rememberCsrfToken } from "@/api/session";
import { frameTexts } from "@/texts/frame";

export function useSignOut(): () => void {
  const client = useQueryClient();
  const navigate = useNavigate();
  const { mutate } = useMutation({
    mutationFn: () => api.POST("/api/auth/logout"),
    onSuccess: async () => {
      rememberCsrfToken(null);
      sessionStorage.clear();
      await navigate({ to: "/sign-in" });
      client.clear();
      toast(frameTexts.signedOut);
    },
    onError: (error) => !hasStatus(error, 401) && toast.error(explain(error)),
  });
  return mutate;
}
