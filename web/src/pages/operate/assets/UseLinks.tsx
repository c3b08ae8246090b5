import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/types";
import { assetsTexts } from "@/texts/assets";

/** Places where an asset is used. */
export function UseLinks({ uses, most = Infinity }: { uses: readonly Schemas["AssetUse"][]; most?: number }) {
  const more = uses.length - most;
  return (
    <ul className="grid gap-0.5">
      {uses.slice(0, most).map((use) => (
        <li key={`${use.type} ${use.slug}`} className="[overflow-wrap:anywhere]">
          {use.type === "workflow" ? (
            <Link to="/operate/workflows/$slug" params={{ slug: use.slug }} className="hover:underline">
              {assetsTexts.workflow(use.name)}
            </Link>
          ) : (
            <Link to="/operate/effects/$slug" params={{ slug: use.slug }} className="hover:underline">
              {assetsTexts.effect(use.name)}
            </Link>
          )}
        </li>
      ))}
      {more > 0 && <li className="text-muted">{assetsTexts.moreUses(more)}</li>}
    </ul>
  );
}
