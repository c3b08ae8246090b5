import { Button, Dialog } from "@/design";
import { workersTexts } from "@/texts/workers";
import type { Worker } from "./state";
import { useWorkerAction } from "./useWorkerActions";

interface Props {
  /** The worker that the question is about; null: no question. */
  worker: Worker | null;
  onClose: () => void;
  onRevoked?: () => void;
}

export function RevokeDialog({ worker, onClose, onRevoked }: Props) {
  const revoke = useWorkerAction(onClose);
  return (
    <Dialog
      open={worker !== null}
      onOpenChange={(open) => !open && onClose()}
      title={workersTexts.revokeTitle(worker?.worker_id ?? "")}
      text={workersTexts.revokeText}
      actions={
        <>
          <Button onClick={onClose}>{workersTexts.keep}</Button>
          <Button look="danger" busy={revoke.isPending} onClick={() => worker && revoke.mutate({ id: worker.worker_id, action: "revoke" }, { onSuccess: onRevoked })}>
            {workersTexts.revokeIt}
          </Button>
        </>
      }
    />
  );
}
