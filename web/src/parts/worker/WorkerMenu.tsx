import { Check, CircleSlash, Ellipsis, KeyRound, LogOut, Undo2 } from "lucide-react";
import { Button, Menu, MenuItem, MenuLine } from "@/design";
import { workersTexts } from "@/texts/workers";
import type { Worker } from "./state";
import { useWorkerAction } from "./useWorkerActions";
import type { Question } from "./WorkerQuestion";

export function WorkerMenu({ worker, onQuestion }: { worker: Worker; onQuestion: (question: Question) => void }) {
  const change = useWorkerAction();
  const id = worker.worker_id;
  return (
    <Menu
      trigger={
        <Button
          look="quiet"
          size="icon"
          busy={change.isPending}
          aria-label={workersTexts.actionsOf(worker.display_name || id)}
          icon={<Ellipsis size={18} />}
        />
      }
    >
      {(!worker.is_approved || worker.revoked_at) && (
        <MenuItem icon={<Check size={16} />} onSelect={() => change.mutate({ id, action: "approve" })}>
          {workersTexts.approve}
        </MenuItem>
      )}
      {worker.is_draining ? (
        <MenuItem icon={<Undo2 size={16} />} onSelect={() => change.mutate({ id, action: "undrain" })}>
          {workersTexts.undrain}
        </MenuItem>
      ) : (
        <MenuItem icon={<LogOut size={16} />} onSelect={() => change.mutate({ id, action: "drain" })}>
          {workersTexts.drain}
        </MenuItem>
      )}
      {!worker.revoked_at && (
        <>
          {worker.is_registered && (
            <MenuItem icon={<KeyRound size={16} />} onSelect={() => onQuestion({ worker, action: "rotate-token" })}>
              {workersTexts.rotate}
            </MenuItem>
          )}
          <MenuLine />
          <MenuItem danger icon={<CircleSlash size={16} />} onSelect={() => onQuestion({ worker, action: "revoke" })}>
            {workersTexts.revoke}
          </MenuItem>
        </>
      )}
    </Menu>
  );
}
