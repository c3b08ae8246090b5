import { CircleAlert, CircleCheck, Plus, RotateCw, X } from "lucide-react";
import { useRef } from "react";
import { Button, Field, Progress } from "@/design";
import { severalFilesTexts } from "@/texts/several-files";
import { type Acceptance, acceptOf } from "./upload/acceptance";
import type { SeveralFile, SeveralFiles } from "./upload/several";

interface Props {
  label: string;
  accepts: Acceptance;
  several: SeveralFiles;
  error?: string | null;
}

/** The files of a batch, with the upload of each. */
export function SeveralFilesField({ label, accepts, several, error }: Props) {
  const input = useRef<HTMLInputElement>(null);
  const { files, note } = several;
  const wrong = files.filter(({ step }) => step === "failed" || step === "refused").length;
  const done = files.filter(({ step }) => step === "done").length;
  const sum = files.reduce((total, each) => total + each.percent, 0);
  return (
    <Field
      label={label}
      hint={severalFilesTexts.text}
      error={wrong > 0 ? severalFilesTexts.notUploaded(wrong) : (error ?? note)}
    >
      <div className="grid gap-2">
        <div className="flex flex-wrap items-center justify-between gap-2">
          <p className="num text-s font-[550]" role="status">
            {files.length === 0 ? severalFilesTexts.none : severalFilesTexts.uploaded(done, files.length)}
          </p>
          <span className="flex gap-2">
            <Button size="s" onClick={() => input.current?.click()} icon={<Plus size={14} aria-hidden />}>
              {severalFilesTexts.add}
            </Button>
            {files.length > 0 && (
              <Button size="s" look="quiet" onClick={several.clear}>
                {severalFilesTexts.clear}
              </Button>
            )}
          </span>
        </div>
        {done < files.length && (
          <Progress percent={sum / files.length} label={severalFilesTexts.uploaded(done, files.length)} />
        )}
        {files.length > 0 && (
          <ul className="max-h-72 divide-y overflow-y-auto rounded-m border">
            {files.map((each) => (
              <Row key={each.key} file={each} several={several} />
            ))}
          </ul>
        )}
        <input
          ref={input}
          type="file"
          multiple
          accept={acceptOf(accepts)}
          aria-label={severalFilesTexts.add}
          tabIndex={-1}
          className="sr-only"
          onChange={(event) => {
            several.add([...(event.target.files ?? [])]);
            event.target.value = "";
          }}
        />
      </div>
    </Field>
  );
}

function Row({ file, several }: { file: SeveralFile; several: SeveralFiles }) {
  const isWrong = file.step === "failed" || file.step === "refused";
  return (
    <li className="flex items-center gap-2 py-1 pr-1 pl-3">
      {file.step === "done" && <CircleCheck size={14} className="shrink-0 text-ok" aria-hidden />}
      {isWrong && <CircleAlert size={14} className="shrink-0 text-bad" aria-hidden />}
      <span className="min-w-0 grow">
        <span className="block truncate text-s" title={file.name}>
          {file.name}
        </span>
        {isWrong && <span className="block text-xs text-bad">{file.reason}</span>}
      </span>
      {file.step === "sending" && <span className="num text-xs text-muted">{file.percent} %</span>}
      {file.step === "failed" && (
        <Button
          size="icon"
          look="quiet"
          aria-label={severalFilesTexts.retry(file.name)}
          onClick={() => several.retry(file.key)}
          icon={<RotateCw size={14} />}
        />
      )}
      <Button
        size="icon"
        look="quiet"
        aria-label={severalFilesTexts.remove(file.name)}
        onClick={() => several.remove(file.key)}
        icon={<X size={16} />}
      />
    </li>
  );
}
