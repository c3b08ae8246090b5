import { AudioLines, Clapperboard, Download, FileText, ImageIcon } from "lucide-react";
import type { Schemas } from "@/api/types";
import { Button, classes } from "@/design";
import { formatBytes } from "@/parts/bytes";
import { kindOf } from "@/parts/media";
import { stillOf } from "@/parts/shown";
import { operatorJobTexts as texts } from "@/texts/operator-job";

const ICONS = { image: ImageIcon, video: Clapperboard, audio: AudioLines, text: FileText, other: FileText };

type JobFile = Schemas["JobInput"] | Schemas["JobOutput"];

interface Props {
  title: string;
  files: readonly JobFile[];
  /** Id of the file in the player. */
  chosen: string;
  onChoose: (id: string) => void;
}

/** Files for the player, each with a download. */
export function FileList({ title, files, chosen, onChoose }: Props) {
  if (files.length === 0) return null;
  return (
    <div className="min-w-0">
      <h3 className="mb-2 text-s text-muted">{title}</h3>
      <ul aria-label={title} className="grid max-h-80 gap-1.5 overflow-y-auto p-0.5">
        {files.map((file) => (
          <li
            key={file.file_id}
            className={classes(
              "flex min-w-0 items-center gap-1 rounded-s border pr-1",
              file.file_id === chosen && "border-accent",
            )}
          >
            <button
              type="button"
              aria-pressed={file.file_id === chosen}
              onClick={() => onChoose(file.file_id)}
              className="flex min-w-0 grow items-center gap-3 rounded-s p-1.5 text-left hover:bg-hover"
            >
              <Still file={file} />
              <span className="min-w-0">
                <span className="block truncate" title={file.name}>
                  {file.name}
                </span>
                <span className="num block text-s text-muted">
                  {file.mime_type} · {formatBytes(file.size)}
                </span>
              </span>
            </button>
            {file.url && (
              <Button asChild size="icon" look="quiet">
                {/* A bucket elsewhere may show the file instead of saving it, so the link opens a new tab. */}
                <a
                  href={file.url}
                  download={file.name}
                  target="_blank"
                  rel="noreferrer"
                  aria-label={texts.download(file.name)}
                >
                  <Download size={16} aria-hidden />
                </a>
              </Button>
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Still({ file }: { file: JobFile }) {
  const still = stillOf(file, "small");
  const Icon = ICONS[kindOf(file.mime_type)];
  return (
    <span className="grid h-11 w-16 shrink-0 place-items-center overflow-hidden rounded-s bg-hover text-muted">
      {still ? (
        <img src={still} alt="" loading="lazy" className="size-full object-cover" />
      ) : (
        <Icon size={18} strokeWidth={1.6} aria-hidden />
      )}
    </span>
  );
}
