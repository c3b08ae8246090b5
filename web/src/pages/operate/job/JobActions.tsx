import { useQuery } from "@tanstack/react-query";
import { RotateCcw } from "lucide-react";
import { useState } from "react";
import { meQuery } from "@/api/queries";
import { isActive } from "@/api/types";
import { Button, formatTokens } from "@/design";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import type { AdminJob } from "@/parts/job/queries";
import { operatorJobTexts as texts } from "@/texts/operator-job";
import { useOperatorAction } from "./useOperatorActions";

/** Replay for a failed or expired job, cancellation for an active one. Viewers see neither. */
export function JobActions({ job }: { job: AdminJob }) {
  const { data: me } = useQuery(meQuery);
  const [dialog, setDialog] = useState<"retry" | "cancel" | null>(null);
  const close = () => setDialog(null);
  const retry = useOperatorAction(job.id, "retry", close);
  const cancel = useOperatorAction(job.id, "cancel", close);
  if (me?.role !== "operator") return null;
  return (
    <>
      {(job.status === "failed" || job.status === "expired") && (
        <Button look="go" icon={<RotateCcw size={16} />} onClick={() => setDialog("retry")}>
          {texts.replay}
        </Button>
      )}
      {isActive(job.status) && (
        <Button look="danger" onClick={() => setDialog("cancel")}>
          {texts.cancel}
        </Button>
      )}
      {dialog === "retry" && (
        <ConfirmDialog
          title={texts.replayTitle}
          text={job.cost > 0 ? texts.replayText(formatTokens(job.cost)) : texts.replayFree}
          action={texts.replayNow}
          keep={texts.keep}
          busy={retry.isPending}
          onConfirm={retry.mutate}
          onClose={close}
        />
      )}
      {dialog === "cancel" && (
        <ConfirmDialog
          danger
          title={texts.cancelTitle}
          text={texts.cancelText}
          action={texts.cancelNow}
          keep={texts.keep}
          busy={cancel.isPending}
          onConfirm={cancel.mutate}
          onClose={close}
        />
      )}
    </>
  );
}
