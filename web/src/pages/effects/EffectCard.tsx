import { Link } from "@tanstack/react-router";
import type { Effect } from "@/api/types";
import { kindName } from "@/parts/effects";
import { CardPreview, usePreviewCard } from "@/parts/PreviewCard";
import { priceText } from "@/parts/price";
import { WaitText } from "@/parts/WaitText";

interface Props {
  effect: Effect;
  /** The card is visible at once, so its image loads first. */
  isFirst: boolean;
}

export function EffectCard({ effect, isFirst }: Props) {
  const { link, isPlaying } = usePreviewCard();
  return (
    <Link
      {...link}
      to="/effects/$slug"
      params={{ slug: effect.slug }}
      data-card
      className="group block rounded-m focus-visible:rounded-m"
    >
      <CardPreview effect={effect} isPlaying={isPlaying} isFirst={isFirst}>
        <span className="absolute bottom-2.5 left-2.5 rounded-full bg-black/60 px-2 py-0.5 text-xs font-[550] text-white">
          {kindName(effect)}
        </span>
      </CardPreview>
      <div className="mt-2.5 flex items-baseline justify-between gap-x-3 px-0.5 max-sm:flex-col">
        <h2 className="max-w-full truncate text-m group-hover:text-accent max-sm:line-clamp-2 max-sm:whitespace-normal">
          {effect.name}
        </h2>
        <span className="num shrink-0 text-s text-muted">{priceText(effect)}</span>
      </div>
      <WaitText effect={effect} className="px-0.5" />
    </Link>
  );
}
