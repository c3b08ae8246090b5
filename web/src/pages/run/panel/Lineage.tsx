import type { Schemas } from "@/api/types";
import { classes, duration } from "@/design";
import { CandidateThumb } from "@/parts/CandidateThumb";
import { galleryTexts, panelTexts } from "@/texts/runs";
import { promptOf } from "./lineage-text";

type Ancestor = Schemas["Ancestor"];

/** The path from the base to the candidate: each step with its image, prompt and seed. */
export function Lineage({ ancestors, onSelect }: { ancestors: readonly Ancestor[]; onSelect: (id: string) => void }) {
  return (
    <section>
      <h3 className="mb-2">{panelTexts.made}</h3>
      <ol className="grid gap-1">
        {ancestors.map((ancestor, place) => (
          <li key={ancestor.candidate_id}>
            <Step ancestor={ancestor} isLast={place === ancestors.length - 1} onSelect={onSelect} />
          </li>
        ))}
      </ol>
    </section>
  );
}

function Step({ ancestor, isLast, onSelect }: { ancestor: Ancestor; isLast: boolean; onSelect: (id: string) => void }) {
  const prompt = promptOf(ancestor);
  return (
    <button
      type="button"
      aria-current={isLast || undefined}
      onClick={() => onSelect(ancestor.candidate_id)}
      className={classes(
        "-mx-2 grid w-[calc(100%+1rem)] grid-cols-[56px_minmax(0,1fr)] gap-3 rounded-s p-2 text-left hover:bg-hover",
        isLast && "bg-hover",
      )}
    >
      <CandidateThumb candidate={ancestor} alt="" className="h-11 w-14 rounded-s border" />
      <span className="min-w-0 text-s">
        <span className="flex justify-between gap-2">
          <span className="truncate font-[550]">{ancestor.step.name}</span>
          <span className="num text-muted">
            <span className="sr-only">{galleryTexts.candidate} </span>
            {ancestor.number}
          </span>
        </span>
        {prompt && <span className="line-clamp-2 text-muted">{prompt}</span>}
        <span className="num block truncate text-xs text-muted">
          {panelTexts.seed} {ancestor.seed}
          {ancestor.seconds != null && <> · {duration(ancestor.seconds)}</>}
        </span>
      </span>
    </button>
  );
}
