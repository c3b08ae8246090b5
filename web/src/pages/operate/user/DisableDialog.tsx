import type { Schemas } from "@/api/types";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { userTexts as texts } from "@/texts/users";
import { useSwitchUser } from "./useSwitchUser";

export function DisableDialog({ user, onClose }: { user: Schemas["User"]; onClose: () => void }) {
  const change = useSwitchUser(user, onClose);
  return (
    <ConfirmDialog
      danger
      title={texts.disableTitle(user.email)}
      text={texts.disableText}
      action={texts.disableIt}
      keep={texts.keep}
      busy={change.isPending}
      onConfirm={() => change.mutate("disable")}
      onClose={onClose}
    />
  );
}
