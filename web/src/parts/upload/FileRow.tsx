import { CircleCheck, RefreshCw, RotateCw, X } from "lucide-react";
import { Button, Progress } from "@/design";
import { uploadTexts } from "@/texts/upload";
import { bytes, seconds } from "./acceptance";
import type { FileValue, UploadState } from "./useUpload";

interface Props {
  state: UploadState;
  value: FileValue | null;
  onReplace: () => void;
  onRetry: () => void;
  onClear: () => void;
}

/** The line below the file: its name, its upload and the possible actions. */
export function FileRow({ state, value, onReplace, onRetry, onClear }: Props) {
  const isSending = state.step === "sending";
  const name = value?.name ?? ("file" in state ? state.file.name : "");
  return (
    <div className="grid gap-2">
      <div className="flex items-center gap-2">
        <div className="min-w-0 grow">
          <p className="flex items-center gap-1.5 text-s font-[550]">
            {value !== null && <CircleCheck size={14} className="shrink-0 text-ok" aria-label={uploadTexts.uploaded} />}
            <span className="truncate" title={name}>
              {name}
            </span>
          </p>
          <p className="num truncate text-xs text-muted">{detail(state, value)}</p>
        </div>
        {state.step === "failed" && (
          <Button size="s" onClick={onRetry} icon={<RotateCw size={14} />}>
            {uploadTexts.retry}
          </Button>
        )}
        {value !== null && (
          <Button size="s" look="quiet" onClick={onReplace} icon={<RefreshCw size={14} />}>
            {uploadTexts.replace}
          </Button>
        )}
        <Button
          size="icon"
          look="quiet"
          onClick={onClear}
          aria-label={isSending ? uploadTexts.cancel : uploadTexts.remove}
          icon={<X size={16} />}
        />
      </div>
      {isSending && (
        <Progress
          percent={(state.loaded / state.total) * 100}
          label={uploadTexts.uploading(Math.round((state.loaded / state.total) * 100))}
        />
      )}
    </div>
  );
}

function detail(state: UploadState, value: FileValue | null): string {
  switch (state.step) {
    case "checking":
      return uploadTexts.checking;
    case "sending": {
      if (state.isPaused) return uploadTexts.paused;
      if (state.loaded >= state.total) return uploadTexts.finishing;
      const left = state.speed ? (state.total - state.loaded) / state.speed : null;
      const line = state.speed
        ? uploadTexts.speed(bytes(state.loaded), bytes(state.total), bytes(state.speed))
        : uploadTexts.uploading(Math.round((state.loaded / state.total) * 100));
      return left !== null && left > 2 ? `${line} · ${uploadTexts.timeLeft(seconds(Math.ceil(left)))}` : line;
    }
    case "failed":
      return bytes(state.file.size);
    default: {
      if (value === null) return "";
      const size = value.width && value.height ? `${value.width} × ${value.height}` : null;
      return [bytes(value.size), value.seconds ? seconds(value.seconds) : null, size]
        .filter((part) => part !== null)
        .join(" · ");
    }
  }
}
