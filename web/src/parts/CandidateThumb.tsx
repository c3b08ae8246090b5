import { ImageOff } from "lucide-react";
import type { Schemas } from "@/api/types";
import { classes } from "@/design";
import { kindOf } from "./media";
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
  const still = thumbOf(candidate);
  const { file } = candidate;
  return (
    <span className={classes("relative grid place-items-center overflow-hidden bg-hover text-muted", className)}>
      {still ? (
        <img
          src={still}
          alt={alt}
          loading="lazy"
          decoding="async"
          draggable={false}
          className={classes("absolute inset-0 size-full object-cover", isDim && "opacity-40")}
        />
      ) : file?.url && kindOf(file.mime_type) === "video" ? (
        <video
          src={`${file.url}#t=0.1`}
          muted
          playsInline
          preload="metadata"
          tabIndex={-1}
          aria-label={alt}
          className={classes("absolute inset-0 size-full object-cover", isDim && "opacity-40")}
        />
      ) : (
        <ImageOff size={18} role="img" aria-label={alt} />
      )}
    </span>
  );
}
