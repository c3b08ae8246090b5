import { X } from "lucide-react";
import { Dialog } from "radix-ui";
import { type ReactNode, useState } from "react";
import { Button } from "@/design";
import type { Media } from "@/parts/media";
import { frameTexts } from "@/texts/frame";
import { mediaTexts } from "@/texts/media";

/** Opens an image on the whole screen. Another press shows it pixel by pixel. */
export function Zoom({ media, className, children }: { media: Media; className: string; children: ReactNode }) {
  const [isOpen, setOpen] = useState(false);
  const [isClose, setClose] = useState(false);
  const name = media.name ?? mediaTexts.image;
  const open = (next: boolean) => {
    setOpen(next);
    setClose(false);
  };
  return (
    <Dialog.Root open={isOpen} onOpenChange={open}>
      <Dialog.Trigger className={className} aria-label={mediaTexts.openLarge}>
        {children}
      </Dialog.Trigger>
      <Dialog.Portal>
        <Dialog.Content
          aria-describedby={undefined}
          className="appear fixed inset-0 z-50 overflow-auto bg-black outline-none"
        >
          <Dialog.Title className="sr-only">{name}</Dialog.Title>
          <button
            type="button"
            onClick={() => setClose(!isClose)}
            aria-label={isClose ? mediaTexts.zoomOut : mediaTexts.zoom}
            className={
              isClose
                ? "grid min-h-full min-w-full cursor-zoom-out place-items-center"
                : "grid size-full cursor-zoom-in place-items-center"
            }
          >
            <img
              src={media.url}
              alt={name}
              className={isClose ? "max-w-none" : "max-h-dvh max-w-full object-contain"}
            />
          </button>
          <Dialog.Close asChild>
            <Button size="icon" aria-label={frameTexts.close} className="fixed top-3 right-3" icon={<X size={18} />} />
          </Dialog.Close>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
