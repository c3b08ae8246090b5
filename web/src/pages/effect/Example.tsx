import type { Effect } from "@/api/types";
import { Art } from "@/parts/Art";
import { BeforeAfter } from "@/parts/BeforeAfter";
import { exampleMedia } from "@/parts/effects";
import { DEFAULT_RATIO, ratioOf } from "@/parts/media";
import { LoopingClip } from "@/parts/player/LoopingClip";
import { MediaBox } from "@/parts/player/MediaBox";
import { effectPageTexts } from "@/texts/effect";

const MAX_HEIGHT = "min(60dvh, 54rem)";

/** Shows what the effect does: its preview, or an image of it. */
export function Example({ effect }: { effect: Effect }) {
  const before = exampleMedia(effect.preview?.before, effectPageTexts.exampleBefore);
  const after = exampleMedia(effect.preview?.after, effectPageTexts.exampleOf(effect.name));
  if (after === null) {
    return (
      <MediaBox ratio={DEFAULT_RATIO} maxHeight={MAX_HEIGHT}>
        <Art name={effect.name} className="absolute inset-0 size-full" />
      </MediaBox>
    );
  }
  if (before !== null && before.kind === after.kind)
    return <BeforeAfter before={before} after={after} isExample maxHeight={MAX_HEIGHT} />;
  return (
    <MediaBox ratio={ratioOf(after)} maxHeight={MAX_HEIGHT}>
      <LoopingClip media={after} />
    </MediaBox>
  );
}
