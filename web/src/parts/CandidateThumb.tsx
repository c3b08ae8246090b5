import { ImageOff } from "lucide-react";
import type { Schemas } from "@/api/types";
import { classes } from "@/design";
import { Still } from "./Still";
import { stillOf } from "./shown";

type Files = Pick<Schemas["Candidate"], "file" | "thumbnail">;

/** The thumbnail of a candidate; the full image until the thumbnail exists. */
export function thumbOf({ file, thumbnail }: Files): string | null {
  return thumbnail?.url ?? (file ? stillOf(file, "small") : null);
}

interface Props {
  candidate: Files;
  alt: string;
  isDim?: boolean;
  className?: string;
}

export function CandidateThumb({ candidate, alt, isDim = false, className }: Props) {
  return (
    <span className={classes("relative grid place-items-center overflow-hidden bg-hover text-muted", className)}>
      <Still still={thumbOf(candidate)} file={candidate.file} alt={alt} className={isDim ? "opacity-40" : ""}>
        <ImageOff size={18} role="img" aria-label={alt} />
      </Still>
    </span>
  );
}
