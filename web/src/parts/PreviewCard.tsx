import { type ReactNode, type Ref, useRef, useState } from "react";
import type { Shown } from "@/api/types";
import { Art } from "./Art";
import { PreviewClip } from "./PreviewClip";
import { useInView } from "./useInView";

/** Properties for the link around a card. Its clip plays under the pointer or the focus, and on a phone in the middle. */
export function usePreviewCard() {
  const card = useRef<HTMLAnchorElement>(null);
  const [isActive, setActive] = useState(false);
  const isInView = useInView(card);
  const link = {
    ref: card as Ref<HTMLAnchorElement>,
    onMouseEnter: () => setActive(true),
    onMouseLeave: () => setActive(false),
    onFocus: () => setActive(true),
    onBlur: () => setActive(false),
  };
  return { link, isPlaying: isActive || isInView };
}

interface Props {
  effect: { name: string; preview?: { after: Shown } | null };
  isPlaying: boolean;
  /** The card is visible at once, so its image loads first. */
  isFirst?: boolean;
  /** Words on the image. */
  children?: ReactNode;
}

/** The preview of an effect in a gallery. */
export function CardPreview({ effect, isPlaying, isFirst = false, children }: Props) {
  const shown = effect.preview?.after;
  const image = shown?.thumbnails?.small ?? shown?.poster_url;
  return (
    <div className="relative aspect-[16/10] overflow-hidden rounded-m border bg-hover shadow-panel transition-[border-color] duration-150 group-hover:border-line-strong">
      {image ? (
        <img
          src={image}
          alt=""
          loading={isFirst ? "eager" : "lazy"}
          fetchPriority={isFirst ? "high" : "auto"}
          decoding="async"
          className="absolute inset-0 size-full object-cover"
        />
      ) : (
        <Art name={effect.name} className="absolute inset-0 size-full" />
      )}
      {shown?.preview_url && (
        <PreviewClip
          url={shown.preview_url}
          isPlaying={isPlaying}
          className="absolute inset-0 size-full object-cover"
        />
      )}
      {children}
    </div>
  );
}
