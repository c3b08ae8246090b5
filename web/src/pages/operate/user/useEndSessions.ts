import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { notify, notifyError } from "@/parts/notify";
import { securityTexts } from "@/texts/account";

export function useEndSession(userId: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) =>
      api.DELETE("/api/admin/users/{user_id}/sessions/{session_id}", {
        params: { path: { user_id: userId, session_id: id } },
      }),
    onSuccess: () => notify(securityTexts.ended),
    onError: (error) => notifyError(error),
    onSettled: () => client.invalidateQueries({ queryKey: keys.userSessions(userId) }),
  });
}

export function useEndSessions(userId: string, onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () =>
      data(api.DELETE("/api/admin/users/{user_id}/sessions", { params: { path: { user_id: userId } } })),
    onSuccess: ({ ended }) => notify(securityTexts.endedOthers(ended)),
    onError: (error) => notifyError(error),
    onSettled: async () => {
      await client.invalidateQueries({ queryKey: keys.userSessions(userId) });
      onDone();
    },
  });
}
