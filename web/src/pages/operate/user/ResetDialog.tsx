import { useMutation } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import type { Schemas } from "@/api/types";
import { Button, Dialog } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { notifyError } from "@/parts/notify";
import { OneTimeText } from "@/parts/OneTimeText";
import { commonTexts } from "@/texts/common";
import { userTexts as texts } from "@/texts/users";

export function ResetDialog({ user, onClose }: { user: Schemas["User"]; onClose: () => void }) {
  const reset = useMutation({
    mutationFn: () =>
      data(api.POST("/api/admin/users/{user_id}/password-reset", { params: { path: { user_id: user.id } } })),
    onError: (error) => notifyError(error),
    // The response contains the link, so the cache drops it when the dialog closes.
    gcTime: 0,
  });
  if (reset.data) {
    return (
      <Dialog
        onClose={onClose}
        title={texts.resetDone}
        text={texts.resetDoneText(user.email)}
        actions={<Button onClick={onClose}>{commonTexts.done}</Button>}
      >
        <OneTimeText label={texts.link} text={reset.data.link} />
      </Dialog>
    );
  }
  return (
    <ConfirmDialog
      title={texts.resetTitle}
      text={texts.resetText(user.email)}
      action={texts.resetIt}
      keep={texts.keep}
      busy={reset.isPending}
      onConfirm={() => reset.mutate()}
      onClose={onClose}
    />
  );
}
