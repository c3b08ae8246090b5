import { Maximize2, X } from "lucide-react";
import { Dialog } from "radix-ui";
import { useState } from "react";
import { Button } from "@/design";
import { frameTexts } from "@/texts/frame";
import { mediaTexts } from "@/texts/media";
import { ratioOf, type Media } from "@/parts/media";
import { MediaBox } from "./MediaBox";

/** An image that opens on the whole screen, where another press shows it pixel by pixel. */
export function ImageView({ media, maxHeight }: { media: Media; maxHeight?: string }) {
  const [isOpen, setOpen] = useState(false);
  const [isClose, setClose] = useState(false);
  const name = media.name ?? mediaTexts.image;
  return (
    <Dialog.Root
      open={isOpen}
      onOpenChange={(open) => {
        setOpen(open);
        setClose(false);
      }}
    >
      <MediaBox ratio={ratioOf(media)} maxHeight={maxHeight} isDark={false}>
        <Dialog.Trigger className="group absolute inset-0 cursor-zoom-in" aria-label={mediaTexts.openLarge}>
          <img src={media.url} alt={name} className="absolute inset-0 size-full object-contain" />
          <span className="absolute right-3 bottom-3 grid size-9 place-items-center rounded-s bg-black/60 text-white opacity-0 transition-opacity duration-100 group-hover:opacity-100 group-focus-visible:opacity-100 touch:opacity-100">
            <Maximize2 size={16} aria-hidden />
          </span>
        </Dialog.Trigger>
      </MediaBox>
      <Dialog.Portal>
        <Dialog.Content aria-describedby={undefined} className="appear fixed inset-0 z-50 overflow-auto bg-black outline-none">
          <Dialog.Title className="sr-only">{name}</Dialog.Title>
          <button
            type="button"
            onClick={() => setClose(!isClose)}
            aria-label={isClose ? mediaTexts.zoomOut : mediaTexts.zoom}
            className={isClose ? "grid min-h-full min-w-full cursor-zoom-out place-items-center" : "grid size-full cursor-zoom-in place-items-center"}
          >
            <img src={media.url} alt={name} className={isClose ? "max-w-none" : "max-h-dvh max-w-full object-contain"} />
          </button>
          <Dialog.Close asChild>
            <Button size="icon" aria-label={frameTexts.close} className="fixed top-3 right-3" icon={<X size={18} />} />
          </Dialog.Close>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
