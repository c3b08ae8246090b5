import type { ReactNode } from "react";
import { Button, Dialog } from "@/design";
import { commonTexts } from "@/texts/common";
import { Refusal } from "./Refusal";

interface Props {
  title: string;
  /** Consequence of the action. */
  text?: ReactNode;
  /** Text of the button that acts. Without it, the user can only cancel. */
  action?: string | false;
  /** Text of the button that cancels. */
  keep?: string;
  danger?: boolean;
  wide?: boolean;
  busy?: boolean;
  disabled?: boolean;
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
  wide,
  busy,
  disabled,
  error,
  onConfirm,
  onClose,
  children,
}: Props) {
  return (
    <Dialog
      wide={wide}
      onClose={onClose}
      title={title}
      text={text}
      actions={
        <>
          <Button onClick={onClose}>{keep}</Button>
          {action && (
            <Button look={danger ? "danger" : "go"} busy={busy} disabled={disabled} onClick={() => onConfirm()}>
              {action}
            </Button>
          )}
        </>
      }
    >
      {children}
      <Refusal error={error} />
    </Dialog>
  );
}
