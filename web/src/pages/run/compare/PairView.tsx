import type { CSSProperties } from "react";
import { classes } from "@/design";
import { kindOf } from "@/parts/media";
import { compareTexts, runTexts } from "@/texts/runs";
import { type Candidate, keyOf, type Pair, tallestOf, type Verdict } from "./pair-queue";

/** The page holds this many pairs, loaded and decoded. Only the first is visible. */
const PRELOADED = 3;

interface Props {
  pairs: readonly Pair[];
  onChoose: (verdict: Verdict) => void;
  isDisabled: boolean;
}

export function PairView({ pairs, onChoose, isDisabled }: Props) {
  const [first] = pairs;
  const tallest = first && tallestOf(first);
  return (
    <div className="@container">
      <div
        role="region"
        aria-label={compareTexts.pair}
        data-pair={first && keyOf(first)}
        // On a wide screen the window is higher than the images need.
        style={tallest === undefined ? undefined : ({ "--tallest": tallest } as CSSProperties)}
        className={classes(
          "relative h-[max(18rem,calc(100dvh-32rem))] max-lg:h-[max(24rem,52dvh)]",
          tallest !== undefined && "lg:max-h-[calc((100cqw-0.75rem)/2*var(--tallest))]",
        )}
      >
        {pairs.slice(0, PRELOADED).map((pair, place) => (
          <div
            key={keyOf(pair)}
            aria-hidden={place > 0}
            inert={place > 0}
            className={classes(
              "absolute inset-0 grid gap-3 max-lg:grid-rows-2 lg:grid-cols-2",
              place > 0 && "invisible",
            )}
          >
            <Side candidate={pair[0]} isNext={place > 0} isDisabled={isDisabled} onChoose={() => onChoose("left")} />
            <Side candidate={pair[1]} isNext={place > 0} isDisabled={isDisabled} onChoose={() => onChoose("right")} />
          </div>
        ))}
      </div>
    </div>
  );
}

interface SideProps {
  candidate: Candidate;
  isNext: boolean;
  isDisabled: boolean;
  onChoose: () => void;
}

function Side({ candidate, isNext, isDisabled, onChoose }: SideProps) {
  const { file } = candidate;
  const fit = "absolute inset-0 size-full object-contain";
  return (
    <button
      type="button"
      disabled={isDisabled}
      aria-label={compareTexts.choose(candidate.number)}
      onClick={onChoose}
      className="panel group relative min-h-0 min-w-0 cursor-pointer touch-manipulation overflow-hidden p-0 transition-colors duration-100 hover:border-accent disabled:cursor-default"
    >
      {file?.url && kindOf(file.mime_type) === "video" ? (
        <video
          src={file.url}
          poster={file.poster_url ?? undefined}
          muted
          loop
          playsInline
          autoPlay={!isNext}
          preload="auto"
          aria-hidden
          tabIndex={-1}
          className={fit}
        />
      ) : file?.url ? (
        <img src={file.url} alt={runTexts.image(candidate.number)} decoding="sync" draggable={false} className={fit} />
      ) : (
        <span className="text-muted">{runTexts.noImage}</span>
      )}
      <span className="num absolute bottom-2 left-2 rounded-full bg-panel/85 px-2 py-0.5 text-xs text-muted">
        {candidate.number}
      </span>
    </button>
  );
}
