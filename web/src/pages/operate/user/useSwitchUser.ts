import { api } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { notifyDone } from "@/parts/notify";
import { useAction } from "@/parts/useAction";
import { userTexts as texts } from "@/texts/users";

const PATHS = { disable: "/api/admin/users/{user_id}/disable", enable: "/api/admin/users/{user_id}/enable" } as const;

export function useSwitchUser(user: Schemas["User"], onDone: () => void = () => undefined) {
  return useAction({
    mutationFn: (action: keyof typeof PATHS) => api.POST(PATHS[action], { params: { path: { user_id: user.id } } }),
    onSuccess: (_, action) =>
      notifyDone(action === "disable" ? texts.wasDisabled(user.email) : texts.wasEnabled(user.email)),
    changes: [keys.allUsers],
    onEnd: onDone,
  });
}
