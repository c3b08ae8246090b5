import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api } from "@/api/client";
import { hasStatus } from "@/api/problems";
import { rememberCsrfToken } from "@/api/session";
import { notify, notifyError } from "@/parts/notify";
import { forgetFiles } from "@/parts/upload/kept-files";
import { frameTexts } from "@/texts/frame";

export function useSignOut(): () => void {
  const client = useQueryClient();
  const navigate = useNavigate();
  const { mutate } = useMutation({
    mutationFn: () => api.POST("/api/auth/logout"),
    onSuccess: async () => {
      rememberCsrfToken(null);
      sessionStorage.clear();
      forgetFiles();
      await navigate({ to: "/sign-in" });
      client.clear();
      void notify(frameTexts.signedOut);
    },
    onError: (error) => !hasStatus(error, 401) && notifyError(error),
  });
  return mutate;
}
