import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { notifyDone, notifyError } from "@/parts/notify";
import { userTexts as texts } from "@/texts/users";

const PATHS = { disable: "/api/admin/users/{user_id}/disable", enable: "/api/admin/users/{user_id}/enable" } as const;

export function useSwitchUser(user: Schemas["User"], onDone: () => void = () => undefined) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (action: keyof typeof PATHS) => api.POST(PATHS[action], { params: { path: { user_id: user.id } } }),
    onSuccess: (_, action) =>
      notifyDone(action === "disable" ? texts.wasDisabled(user.email) : texts.wasEnabled(user.email)),
    onError: (error) => notifyError(error),
    onSettled: async () => {
      await client.invalidateQueries({ queryKey: keys.allUsers });
      onDone();
    },
  });
}
