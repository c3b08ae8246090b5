// Several files of one field: each uploads as soon as it was chosen, a few at a time.
import { useCallback, useEffect, useRef, useState } from "react";
import { Upload } from "@/api/uploads";
import { severalFilesTexts } from "@/texts/several-files";
import { type Acceptance, HEAD_BYTES, looksLikeText, refusal, typeOf, wrongFile } from "./acceptance";
import { reasonOf } from "./reason";

export interface SeveralFile {
  key: number;
  name: string;
  step: "waiting" | "sending" | "done" | "failed" | "refused";
  percent: number;
  /** The stored file. */
  id?: string;
  reason?: string;
}

const AT_ONCE = 3;
// Items of a batch.
export const MAX_FILES = 1000;

/** `kept` are stored files of an earlier visit. */
export function useSeveralFiles(accepts: Acceptance, kept: SeveralFile[] = []) {
  const [files, setFiles] = useState<SeveralFile[]>(kept);
  const [note, setNote] = useState<string | null>(null);
  const now = useRef<SeveralFile[]>(kept);
  const uploads = useRef(new Map<number, Upload>());
  const stops = useRef(new Map<number, AbortController>());
  const waiters = useRef<(() => void)[]>([]);
  const wanted = useRef(accepts);
  wanted.current = accepts;

  const set = useCallback((next: SeveralFile[]) => {
    now.current = next;
    setFiles(next);
    if (next.every((each) => each.step !== "waiting" && each.step !== "sending"))
      for (const go of waiters.current.splice(0)) go();
  }, []);
  const change = useCallback(
    (key: number, update: Partial<SeveralFile>) =>
      set(now.current.map((each) => (each.key === key ? { ...each, ...update } : each))),
    [set],
  );

  const next = useCallback(() => {
    const sending = now.current.filter((each) => each.step === "sending").length;
    for (const each of now.current.filter(({ step }) => step === "waiting").slice(0, AT_ONCE - sending)) {
      const upload = uploads.current.get(each.key);
      if (upload === undefined) continue;
      const stop = new AbortController();
      stops.current.set(each.key, stop);
      change(each.key, { step: "sending", percent: 0, reason: undefined });
      const onSent = ({ loaded, total }: { loaded: number; total: number }) =>
        change(each.key, { percent: Math.round((loaded / total) * 100) });
      headOf(upload.file)
        .then((head) => {
          if (looksLikeText(upload.mimeType, head)) throw new Error(wrongFile(each.name, wanted.current));
          return upload.run(onSent, stop.signal);
        })
        .then(
          (stored) => change(each.key, { step: "done", percent: 100, id: stored.id }),
          (error: unknown) => {
            if (!stop.signal.aborted) change(each.key, { step: "failed", reason: reasonOf(error) });
          },
        )
        .finally(next);
    }
  }, [change]);

  const add = useCallback(
    (chosen: readonly File[]) => {
      const room = MAX_FILES - now.current.length;
      setNote(chosen.length > room ? severalFilesTexts.tooMany(MAX_FILES) : null);
      let key = (now.current.at(-1)?.key ?? 0) + 1;
      const added = chosen.slice(0, room).map((file): SeveralFile => {
        const own = key++;
        const reason = refusal(file, wanted.current);
        if (reason === null) uploads.current.set(own, new Upload(file, typeOf(file, wanted.current.kind)));
        const step = reason === null ? "waiting" : "refused";
        return { key: own, name: file.name, step, percent: 0, reason: reason ?? undefined };
      });
      set([...now.current, ...added]);
      next();
    },
    [set, next],
  );
  const remove = useCallback(
    (key: number) => {
      stops.current.get(key)?.abort();
      uploads.current.delete(key);
      set(now.current.filter((each) => each.key !== key));
      next();
    },
    [set, next],
  );
  const retry = useCallback(
    (key: number) => {
      change(key, { step: "waiting", reason: undefined });
      next();
    },
    [change, next],
  );
  const clear = useCallback(() => {
    for (const stop of stops.current.values()) stop.abort();
    uploads.current.clear();
    setNote(null);
    set([]);
  }, [set]);
  /** The ids of all files, in their order, when every upload has ended; null if one of them cannot be used. */
  const ready = useCallback(async (): Promise<string[] | null> => {
    const isOpen = now.current.some(({ step }) => step === "waiting" || step === "sending");
    if (isOpen) await new Promise<void>((go) => waiters.current.push(go));
    const ids = now.current.flatMap((each) => (each.id === undefined ? [] : [each.id]));
    return ids.length === now.current.length ? ids : null;
  }, []);
  useEffect(
    () => () => {
      for (const stop of stops.current.values()) stop.abort();
    },
    [],
  );
  return { files, note, add, remove, retry, clear, ready };
}

export type SeveralFiles = ReturnType<typeof useSeveralFiles>;

async function headOf(file: File): Promise<Uint8Array> {
  return new Uint8Array(await file.slice(0, HEAD_BYTES).arrayBuffer());
}
