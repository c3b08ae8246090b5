import { lazy, Suspense, useRef } from "react";
import { hasStatus } from "@/api/problems";
import { Field, Skeleton, useFieldProps } from "@/design";
import { uploadTexts } from "@/texts/upload";
import { type Media, mediaOf } from "./media";
import { type Acceptance, accepted, acceptOf } from "./upload/acceptance";
import { DropZone } from "./upload/DropZone";
import { FileRow } from "./upload/FileRow";
import { useKeptFile } from "./upload/kept-files";
import { useDropAndPaste } from "./upload/useDropAndPaste";
import { useStoredFile } from "./upload/useStoredFile";
import { type FileValue, useUpload } from "./upload/useUpload";

export type { FileValue } from "./upload/useUpload";

// The player is not needed before the user chooses a file.
const MediaPlayer = lazy(async () => ({ default: (await import("./MediaPlayer")).MediaPlayer }));

interface Props {
  /** Name of the field. It must be unique, also on other pages, because it finds a file whose upload is not done. */
  name: string;
  label: string;
  hint?: string;
  error?: string | null;
  required?: boolean;
  accepts: Acceptance;
  value: FileValue | null;
  onChange: (value: FileValue | null) => void;
  onPending?: (uploading: Promise<FileValue> | null) => void;
  /** The main field of its page takes files that are dropped or pasted anywhere. */
  isMain?: boolean;
  /** Takes more than one file at once, instead of this field. */
  onSeveral?: (files: File[]) => void;
}

/** A file that uploads straight to storage as soon as the user chooses it. */
export function UploadField({
  name,
  label,
  hint,
  error,
  required,
  accepts,
  value,
  onChange,
  onPending,
  isMain = false,
  onSeveral,
}: Props) {
  const input = useRef<HTMLInputElement>(null);
  const { state, local, choose, retry, clear } = useUpload({ accepts, onChange, onPending, kept: useKeptFile(name) });
  const take = (file: File, all: File[]) => (all.length > 1 && onSeveral ? onSeveral(all) : void choose(file));
  const isOver = useDropAndPaste(isMain, take);
  const isLocal = local !== null && (value === null || local.id === value.id);
  const stored = useStoredFile(value !== null && !isLocal ? value.id : null);
  const isGone = hasStatus(stored.error, 404);
  const chosen = state.step === "checking" || state.step === "sending" || state.step === "failed" ? state : null;
  const isEmpty = chosen === null && value === null;
  const shown: Media | null = isLocal
    ? {
        kind: accepts.kind,
        url: local.url,
        name: chosen?.file.name ?? value?.name,
        width: value?.width,
        height: value?.height,
        ...(chosen && "measured" in chosen ? chosen.measured : {}),
      }
    : stored.data
      ? mediaOf(stored.data)
      : null;
  const reason =
    state.step === "refused"
      ? state.reason
      : state.step === "failed"
        ? state.reason
        : isGone
          ? uploadTexts.gone
          : error;
  return (
    <Field
      label={label}
      hint={isEmpty ? (hint ?? accepted(accepts)) : hint}
      error={reason}
      required={required && isEmpty}
    >
      <Input ref={input} accept={acceptOf(accepts)} multiple={onSeveral !== undefined} onFile={take} />
      {isEmpty || isGone ? (
        <DropZone
          kind={accepts.kind}
          isOver={isOver}
          isMain={isMain}
          takesSeveral={onSeveral !== undefined}
          onFile={take}
          onChoose={() => input.current?.click()}
        />
      ) : (
        <div className="grid gap-2">
          {shown === null || state.step === "checking" ? (
            <Skeleton className="h-40 rounded-m!" />
          ) : (
            <Suspense fallback={<Skeleton className="h-40 rounded-m!" />}>
              <MediaPlayer key={shown.url} media={shown} maxHeight={isMain ? "17rem" : "10rem"} />
            </Suspense>
          )}
          <FileRow
            state={state}
            value={value}
            onReplace={() => input.current?.click()}
            onRetry={retry}
            onClear={clear}
          />
        </div>
      )}
    </Field>
  );
}

function Input({
  ref,
  accept,
  multiple,
  onFile,
}: {
  ref: React.RefObject<HTMLInputElement | null>;
  accept: string;
  multiple: boolean;
  onFile: (file: File, all: File[]) => void;
}) {
  return (
    <input
      ref={ref}
      type="file"
      accept={accept}
      multiple={multiple}
      {...useFieldProps()}
      // Keyboard users reach the button in the field.
      tabIndex={-1}
      className="sr-only"
      onChange={(event) => {
        const all = [...(event.target.files ?? [])];
        // The user may choose the same file again.
        event.target.value = "";
        if (all[0] !== undefined) onFile(all[0], all);
      }}
    />
  );
}
