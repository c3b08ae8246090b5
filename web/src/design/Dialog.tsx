import { X } from "lucide-react";
import { Dialog as Radix } from "radix-ui";
import { type ReactNode, useState } from "react";
import { frameTexts } from "@/texts/frame";
import { Button } from "./Button";
import { classes } from "./classes";

interface Props {
  onClose: () => void;
  title: string;
  text?: ReactNode;
  /** The buttons at the bottom. The button that acts is the last one. */
  actions?: ReactNode;
  wide?: boolean;
  children?: ReactNode;
}

/** The dialog is open while it is mounted. */
export function Dialog({ onClose, title, text, actions, wide = false, children }: Props) {
  const giveFocusBack = useOpener();
  return (
    <Radix.Root open onOpenChange={(open) => !open && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-veil" />
        <Radix.Content
          onCloseAutoFocus={giveFocusBack}
          {...(text === undefined ? { "aria-describedby": undefined } : {})}
          className={classes(
            "appear fixed top-1/2 left-1/2 z-50 flex max-h-[min(85dvh,46rem)] w-[calc(100vw-2rem)] -translate-x-1/2 -translate-y-1/2 flex-col gap-4",
            "overflow-y-auto rounded-m border bg-panel p-5 shadow-high outline-none",
            wide ? "max-w-2xl" : "max-w-md",
          )}
        >
          <div className="flex items-start justify-between gap-4">
            <div className="grid min-w-0 gap-1 break-words">
              <Radix.Title className="text-l font-semibold">{title}</Radix.Title>
              {text !== undefined && <Radix.Description className="text-muted">{text}</Radix.Description>}
            </div>
            <Radix.Close asChild>
              <Button
                look="quiet"
                size="icon"
                aria-label={frameTexts.close}
                className="-mt-1.5 -mr-2 shrink-0"
                icon={<X size={18} />}
              />
            </Radix.Close>
          </div>
          {children}
          {actions !== undefined && <div className="flex flex-wrap justify-end gap-2">{actions}</div>}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/**
 * Returns a function that focuses the element that had the focus before the dialog. Radix knows only its own triggers.
 */
function useOpener(): (event: Event) => void {
  // Read during the render and not in an effect: a field of the dialog may take the focus before effects run.
  const [opener] = useState(() => document.activeElement);
  return (event) => {
    if (!(opener instanceof HTMLElement) || !opener.isConnected) return;
    event.preventDefault();
    opener.focus();
  };
}
