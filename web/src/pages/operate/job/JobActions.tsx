import { useQuery } from "@tanstack/react-query";
import { RotateCcw } from "lucide-react";
import { useState } from "react";
import { meQuery } from "@/api/queries";
import { isActive } from "@/api/types";
import { Button, Dialog, formatTokens } from "@/design";
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
  const isReplay = dialog === "retry";
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
      <Dialog
        open={dialog !== null}
        onOpenChange={(open) => !open && close()}
        title={isReplay ? texts.replayTitle : texts.cancelTitle}
        text={
          isReplay ? (job.cost > 0 ? texts.replayText(formatTokens(job.cost)) : texts.replayFree) : texts.cancelText
        }
        actions={
          <>
            <Button onClick={close}>{texts.keep}</Button>
            {isReplay ? (
              <Button look="go" busy={retry.isPending} onClick={() => retry.mutate()}>
                {texts.replayNow}
              </Button>
            ) : (
              <Button look="danger" busy={cancel.isPending} onClick={() => cancel.mutate()}>
                {texts.cancelNow}
              </Button>
            )}
          </>
        }
      />
    </>
  );
}
