import { useState } from "react";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { BooleanField } from "@/parts/form/BooleanField";
import { workersTexts as texts } from "@/texts/workers";
import type { Worker } from "./state";
import { useWorkerAction } from "./useWorkerActions";

/** The action that needs a confirmation. */
export interface Question {
  worker: Worker;
  action: "revoke" | "rotate-token";
}

interface Props {
  question: Question;
  onClose: () => void;
  onRevoked?: () => void;
}

export function WorkerQuestion({ question: { worker, action }, onClose, onRevoked }: Props) {
  const [withToken, setWithToken] = useState(false);
  const change = useWorkerAction(onClose);
  const id = worker.worker_id;
  if (action === "rotate-token")
    return (
      <ConfirmDialog
        title={texts.rotateTitle(id)}
        text={
          worker.rotation_pending
            ? texts.rotationPending
            : worker.is_live
              ? texts.rotateText
              : `${texts.rotateText} ${texts.rotateOffline}`
        }
        action={texts.rotateIt}
        busy={change.isPending}
        onConfirm={() => change.mutate({ id, action })}
        onClose={onClose}
      />
    );
  return (
    <ConfirmDialog
      danger
      title={texts.revokeTitle(id)}
      text={texts.revokeText}
      action={texts.revokeIt}
      keep={texts.keep}
      busy={change.isPending}
      onConfirm={() => change.mutate({ id, action, withToken }, { onSuccess: onRevoked })}
      onClose={onClose}
    >
      {worker.fleet_token_id != null && (
        <BooleanField label={texts.withToken} hint={texts.withTokenHint} value={withToken} onChange={setWithToken} />
      )}
    </ConfirmDialog>
  );
}
