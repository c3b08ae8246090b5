import { Maximize2 } from "lucide-react";
import { type Media, ratioOf } from "@/parts/media";
import { mediaTexts } from "@/texts/media";
import { MediaBox } from "./MediaBox";
import { Zoom } from "./Zoom";

/** An image that opens on the whole screen. */
export function ImageView({ media, maxHeight }: { media: Media; maxHeight?: string }) {
  return (
    <MediaBox ratio={ratioOf(media)} maxHeight={maxHeight} isDark={false}>
      <Zoom media={media} className="group absolute inset-0 cursor-zoom-in">
        {/* Until the size of the image is known the box may have another shape, so its sides belong to the image too. */}
        {!media.width && (
          <img
            src={media.url}
            alt=""
            aria-hidden
            className="absolute inset-0 size-full scale-125 object-cover opacity-40 blur-2xl"
          />
        )}
        <img
          src={media.url}
          alt={media.name ?? mediaTexts.image}
          className="absolute inset-0 size-full object-contain"
        />
        <span className="absolute right-3 bottom-3 grid size-9 place-items-center rounded-s bg-black/60 text-white opacity-0 transition-opacity duration-100 group-hover:opacity-100 group-focus-visible:opacity-100 touch:opacity-100">
          <Maximize2 size={16} aria-hidden />
        </span>
      </Zoom>
    </MediaBox>
  );
}
