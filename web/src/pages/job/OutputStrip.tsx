import { FileIcon } from "lucide-react";
import type { JobOutput } from "@/api/types";
import { classes } from "@/design";
import { stillOf } from "@/parts/shown";
import { jobTexts } from "@/texts/job";

interface Props {
  outputs: readonly JobOutput[];
  chosen: number;
  onChoose: (index: number) => void;
}

/** Thumbnails of a job with several files. */
export function OutputStrip({ outputs, chosen, onChoose }: Props) {
  return (
    <div role="group" aria-label={jobTexts.outputs} className="flex gap-2 overflow-x-auto p-1">
      {outputs.map((output, index) => {
        const image = stillOf(output, "small");
        return (
          <button
            key={output.file_id}
            type="button"
            aria-pressed={index === chosen}
            aria-label={jobTexts.outputOf(index + 1, output.name)}
            onClick={() => onChoose(index)}
            className={classes(
              "relative h-16 w-24 shrink-0 overflow-hidden rounded-s border bg-hover",
              index === chosen && "outline-2 outline-offset-2 outline-accent",
            )}
          >
            {image ? (
              <img src={image} alt="" className="size-full object-cover" loading="lazy" />
            ) : (
              <FileIcon size={20} className="mx-auto text-muted" aria-hidden />
            )}
          </button>
        );
      })}
    </div>
  );
}
