import { memo } from "react";
import { classes } from "@/design";
import { CandidateThumb } from "@/parts/CandidateThumb";
import { galleryTexts, panelTexts } from "@/texts/runs";
import type { Candidate } from "../queries";

interface Props {
  candidate: Candidate;
  step: string;
  isSelected: boolean;
  onSelect: (id: string) => void;
}

export const GalleryCard = memo(function GalleryCard({ candidate, step, isSelected, onSelect }: Props) {
  const isRejected = candidate.status === "rejected";
  return (
    <div role="listitem" className="min-w-0">
      <button
        type="button"
        aria-pressed={isSelected}
        onClick={() => onSelect(candidate.id)}
        className={classes(
          "panel grid w-full overflow-hidden text-left transition-colors duration-100 hover:border-line-strong",
          isSelected && "outline-2 outline-offset-1 outline-accent",
        )}
      >
        <CandidateThumb candidate={candidate} alt="" isDim={isRejected} className="aspect-[3/2] w-full" />
        <span className="num flex h-10 items-center justify-between gap-2 px-2.5 text-xs">
          <span className="truncate">
            <span className="sr-only">{galleryTexts.candidate} </span>
            <span className="font-[550]">{candidate.number}</span>{" "}
            <span className="text-muted">{isRejected ? panelTexts.states.rejected : step}</span>
          </span>
          <span className="shrink-0 text-muted">
            <span className="max-sm:sr-only">{panelTexts.rating} </span>
            {candidate.elo}
          </span>
        </span>
      </button>
    </div>
  );
});
