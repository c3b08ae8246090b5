import type { ReactNode } from "react";
import { explain } from "@/api/problems";
import { Button, Dialog } from "@/design";
import { commonTexts } from "@/texts/common";

interface Props {
  title: string;
  /** What will happen. */
  text: ReactNode;
  /** The word on the button that does it. */
  action: string;
  /** The word on the button that leaves everything as it is. */
  keep?: string;
  danger?: boolean;
  busy: boolean;
  /** Why it was refused. */
  error?: Error | null;
  onConfirm: () => void;
  onClose: () => void;
  children?: ReactNode;
}

/** Asks before something is done, and shows a refusal where the question was. */
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
