import type { Schemas } from "@/api/types";
import { Button, Dialog } from "@/design";
import { userTexts as texts } from "@/texts/users";
import { useSwitchUser } from "./useSwitchUser";

export function DisableDialog({ user, onClose }: { user: Schemas["User"]; onClose: () => void }) {
  const change = useSwitchUser(user, onClose);
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={texts.disableTitle(user.email)}
      text={texts.disableText}
      actions={
        <>
          <Button onClick={onClose}>{texts.keep}</Button>
          <Button look="danger" busy={change.isPending} onClick={() => change.mutate("disable")}>
            {texts.disableIt}
          </Button>
        </>
      }
    />
  );
}
