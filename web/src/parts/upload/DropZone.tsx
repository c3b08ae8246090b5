import { AudioLines, Camera, FileUp, ImageUp, Upload } from "lucide-react";
import { type DragEvent, useRef, useState } from "react";
import { Button, classes } from "@/design";
import { uploadTexts } from "@/texts/upload";
import type { FileKind } from "../media";

interface Props {
  kind: FileKind;
  /** A file hovers over the page. */
  isOver: boolean;
  isMain: boolean;
  takesSeveral: boolean;
  onFile: (file: File, all: File[]) => void;
  onChoose: () => void;
}

const ICONS = { image: ImageUp, video: FileUp, audio: AudioLines };

export function DropZone({ kind, isOver, isMain, takesSeveral, onFile, onChoose }: Props) {
  const [isOverThis, setOverThis] = useState(false);
  const camera = useRef<HTMLInputElement>(null);
  const Icon = ICONS[kind];
  const isReady = isOver || isOverThis;
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOverThis(false);
    const all = [...event.dataTransfer.files];
    if (all[0] !== undefined) onFile(all[0], all);
  };
  return (
    <div
      data-own-drop
      onDragEnter={() => setOverThis(true)}
      onDragLeave={(event) => event.currentTarget.contains(event.relatedTarget as Node) || setOverThis(false)}
      onDragOver={(event) => event.preventDefault()}
      onDrop={onDrop}
      className={classes(
        "grid justify-items-center gap-3 rounded-m border border-dashed border-line-strong px-4 text-center transition-colors duration-100",
        isMain ? "py-8" : "py-5",
        isReady ? "border-accent bg-accent-soft" : "bg-hover/50 hover:bg-hover",
      )}
    >
      {isMain && (
        <div
          aria-hidden
          className="grid size-11 place-items-center rounded-full border bg-panel text-muted shadow-panel"
        >
          <Icon size={20} />
        </div>
      )}
      <p className="touch:hidden">
        <span className="font-[550]">
          {isReady ? uploadTexts.dropNow : takesSeveral ? uploadTexts.dropSeveral[kind] : uploadTexts.drop[kind]}
        </span>
        {isMain && (
          <span className="text-muted"> {takesSeveral ? uploadTexts.orPasteSeveral : uploadTexts.orPaste}</span>
        )}
      </p>
      <p className="hidden font-[550] touch:block">{uploadTexts.add[kind]}</p>
      <div className="flex flex-wrap justify-center gap-2">
        <Button size="s" onClick={onChoose} icon={<Upload size={14} />}>
          {takesSeveral ? uploadTexts.chooseSeveral : uploadTexts.choose}
        </Button>
        {kind !== "audio" && (
          <span className="hidden touch:contents">
            <Button size="s" onClick={() => camera.current?.click()} icon={<Camera size={14} />}>
              {uploadTexts.camera}
            </Button>
          </span>
        )}
      </div>
      <input
        ref={camera}
        type="file"
        accept={`${kind}/*`}
        capture="environment"
        tabIndex={-1}
        aria-hidden="true"
        className="hidden"
        onChange={(event) => {
          const file = event.target.files?.[0];
          event.target.value = "";
          if (file !== undefined) onFile(file, [file]);
        }}
      />
    </div>
  );
}
