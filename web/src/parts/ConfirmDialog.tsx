import type { ReactNode } from "react";
import { explain } from "@/api/problems";
import { Button, Dialog } from "@/design";
import { commonTexts } from "@/texts/common";

interface Props {
  title: string;
  /** Consequence of the action. */
  text: ReactNode;
  /** Text of the button that acts. */
  action: string;
  /** Text of the button that cancels. */
  keep?: string;
  danger?: boolean;
  busy: boolean;
  /** The refusal of the last attempt. */
  error?: Error | null;
  onConfirm: () => void;
  onClose: () => void;
  children?: ReactNode;
}

/** Asks before an action and shows a refusal in the same place. */
export function ConfirmDialog({
  title,
  text,
  action,
  keep = commonTexts.cancel,
  danger = false,
  busy,
  error,
  onConfirm,
  onClose,
  children,
}: Props) {
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={title}
      text={text}
      actions={
        <>
          <Button onClick={onClose}>{keep}</Button>
          <Button look={danger ? "danger" : "go"} busy={busy} onClick={onConfirm}>
            {action}
          </Button>
        </>
      }
    >
      {children}
      {error && (
        <p role="alert" className="text-bad">
          {explain(error)}
        </p>
      )}
    </Dialog>
  );
}
