import { Link } from "@tanstack/react-router";
import { useRef, useState } from "react";
import type { Effect } from "@/api/types";
import { formatTokens } from "@/design/Tokens";
import { Art } from "@/parts/Art";
import { kindName } from "@/parts/effects";
import { PreviewClip } from "@/parts/PreviewClip";
import { useInView } from "@/parts/useInView";
import { WaitText } from "@/parts/WaitText";
import { effectTexts } from "@/texts/effects";

interface Props {
  effect: Effect;
  /** The card is visible at once, so its image loads first. */
  isFirst: boolean;
}

export function EffectCard({ effect, isFirst }: Props) {
  const card = useRef<HTMLAnchorElement>(null);
  const [isActive, setActive] = useState(false);
  const isInView = useInView(card);
  const shown = effect.preview?.after;
  const image = shown?.thumbnails?.small ?? shown?.poster_url;
  return (
    <Link
      ref={card}
      to="/effects/$slug"
      params={{ slug: effect.slug }}
      data-card
      onMouseEnter={() => setActive(true)}
      onMouseLeave={() => setActive(false)}
      onFocus={() => setActive(true)}
      onBlur={() => setActive(false)}
      className="group block rounded-m focus-visible:rounded-m"
    >
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
            isPlaying={isActive || isInView}
            className="absolute inset-0 size-full object-cover"
          />
        )}
        <span className="absolute bottom-2.5 left-2.5 rounded-full bg-black/60 px-2 py-0.5 text-xs font-[550] text-white">
          {kindName(effect)}
        </span>
      </div>
      <div className="mt-2.5 flex items-baseline justify-between gap-x-3 px-0.5 max-sm:flex-col">
        <h2 className="max-w-full truncate text-m group-hover:text-accent max-sm:line-clamp-2 max-sm:whitespace-normal">
          {effect.name}
        </h2>
        <span className="num shrink-0 text-s text-muted">
          {effect.credits_cost === 0 ? effectTexts.free : formatTokens(effect.credits_cost)}
        </span>
      </div>
      <WaitText effect={effect} className="px-0.5" />
    </Link>
  );
}
