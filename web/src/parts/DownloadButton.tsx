import { Download } from "lucide-react";
import type { ComponentProps, MouseEvent } from "react";
import type { Job } from "@/api/types";
import { Button } from "@/design";
import { jobTexts } from "@/texts/job";
import { useSaveFile } from "./useSaveFile";

type Props = { job: Job } & Pick<ComponentProps<typeof Button>, "look" | "size" | "className">;

/** Downloads the result of a job: its file, or all its files as a zip. */
export function DownloadButton({ job, size = "m", ...style }: Props) {
  const outputs = job.outputs ?? [];
  const [first] = outputs;
  const save = useSaveFile();
  const isOne = outputs.length === 1 && first?.url;
  const url = isOne ? (first.url ?? "") : `/api/library/download?job_id=${job.id}`;
  // A browser saves the target of a link at our origin. A file in a bucket elsewhere would open instead.
  const isHere = new URL(url, window.location.origin).origin === window.location.origin;
  const onClick = (event: MouseEvent) => {
    if (isHere || !isOne) return;
    event.preventDefault();
    save.mutate(first.file_id);
  };
  return (
    <Button asChild size={size} {...style}>
      <a href={url} download={isOne ? first.name : true} onClick={onClick} rel="noreferrer">
        <Download size={size === "s" ? 14 : 16} aria-hidden />
        {isOne ? jobTexts.download : jobTexts.downloadAll}
      </a>
    </Button>
  );
}
