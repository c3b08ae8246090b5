import { Link } from "@tanstack/react-router";
import { Badge } from "@/design";
import { CardPreview, usePreviewCard } from "@/parts/PreviewCard";
import { catalogEffectsTexts } from "@/texts/catalog-effects";
import { priceOf } from "./price";
import type { EffectRecord } from "./queries";

type Heading = "h2" | "h3";

/** Effects for operators: with their state, and including unpublished ones. */
export function EffectGrid({
  effects,
  inactive,
  heading = "h2",
}: {
  effects: readonly EffectRecord[];
  inactive: readonly string[];
  heading?: Heading;
}) {
  return (
    <ul
      aria-label={catalogEffectsTexts.list}
      className="grid grid-cols-2 gap-x-4 gap-y-6 lg:grid-cols-3 2xl:grid-cols-4"
    >
      {effects.map((effect) => (
        <li key={effect.id}>
          <Card effect={effect} isOff={inactive.includes(effect.workflow)} heading={heading} />
        </li>
      ))}
    </ul>
  );
}

function Card({ effect, isOff, heading: Name }: { effect: EffectRecord; isOff: boolean; heading: Heading }) {
  const { link, isPlaying } = usePreviewCard();
  return (
    <Link {...link} to="/operate/effects/$slug" params={{ slug: effect.slug }} className="group block rounded-m">
      <CardPreview effect={effect} isPlaying={isPlaying} />
      <div className="mt-2.5 flex items-baseline justify-between gap-x-3 px-0.5 max-sm:flex-col">
        <Name className="max-w-full truncate text-m group-hover:text-accent max-sm:line-clamp-2 max-sm:whitespace-normal">
          {effect.name}
        </Name>
        <span className="num shrink-0 text-s text-muted">{priceOf(effect)}</span>
      </div>
      <div className="mt-1 flex flex-wrap items-center gap-x-2 gap-y-1 px-0.5 text-s text-muted">
        {!effect.is_published ? (
          <Badge>{catalogEffectsTexts.draft}</Badge>
        ) : isOff ? (
          <Badge tone="warn">{catalogEffectsTexts.off}</Badge>
        ) : (
          <Badge tone="ok">{catalogEffectsTexts.published}</Badge>
        )}
        {effect.category && <span className="[overflow-wrap:anywhere]">{effect.category}</span>}
      </div>
    </Link>
  );
}
