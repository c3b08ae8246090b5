// State of one file field: the chosen file, its upload and the result.
import { useCallback, useEffect, useRef, useState } from "react";
import { fieldReason } from "@/api/problems";
import { Upload } from "@/api/uploads";
import {
  type Acceptance,
  HEAD_BYTES,
  looksLikeText,
  type Measured,
  measuredRefusal,
  refusal,
  typeOf,
  wrongFile,
} from "./acceptance";
import type { KeptFile } from "./kept-files";
import { measure } from "./measure";
import { reasonOf } from "./reason";
import { Speed } from "./speed";

/** An uploaded and checked file. It can be stored as text, for example in a draft. */
export interface FileValue extends Measured {
  id: string;
  name: string;
  mimeType: string;
  size: number;
}

export type UploadState =
  | { step: "idle" }
  | { step: "refused"; reason: string }
  | { step: "checking"; file: File; url: string }
  | {
      step: "sending";
      file: File;
      url: string;
      measured: Measured;
      loaded: number;
      total: number;
      speed: number | null;
      isPaused: boolean;
    }
  | { step: "failed"; file: File; url: string; measured: Measured; reason: string };

interface Options {
  accepts: Acceptance;
  onChange: (value: FileValue | null) => void;
  /** Promise that a submit must wait for; null if there is none. */
  onPending?: (uploading: Promise<FileValue> | null) => void;
  /** Storage for the file until its upload is done. */
  kept: KeptFile;
}

export function useUpload({ accepts, onChange, onPending, kept }: Options) {
  const [state, setState] = useState<UploadState>({ step: "idle" });
  // URL of the chosen file while the field is mounted.
  const [local, setLocal] = useState<{ id: string | null; url: string } | null>(null);
  const running = useRef<{ upload: Upload; stop: AbortController; url: string; measured: Measured } | null>(null);
  const latest = useRef({ accepts, onChange, onPending });
  latest.current = { accepts, onChange, onPending };

  const send = useCallback(
    async (upload: Upload, url: string, measured: Measured) => {
      const stop = new AbortController();
      const own = { upload, stop, url, measured };
      running.current = own;
      const isCurrent = () => running.current === own;
      const speed = new Speed();
      const base = { file: upload.file, url, measured };
      setState({ step: "sending", ...base, loaded: 0, total: upload.file.size, speed: null, isPaused: false });
      const uploading = upload
        .run(
          ({ loaded, total, isPaused = false }) =>
            isCurrent() &&
            setState({
              step: "sending",
              ...base,
              loaded,
              total,
              isPaused,
              speed: speed.add(loaded, performance.now()),
            }),
          stop.signal,
        )
        .then(
          (file): FileValue => ({
            id: file.id,
            name: file.name,
            mimeType: file.mime_type,
            size: file.size,
            ...measured,
          }),
        );
      latest.current.onPending?.(uploading);
      try {
        const value = await uploading;
        if (!isCurrent()) return;
        kept.keep(null);
        setLocal({ id: value.id, url });
        setState({ step: "idle" });
        latest.current.onChange(value);
      } catch (error) {
        if (!isCurrent() || stop.signal.aborted) return;
        if (fieldReason(error, "mime_type") === null)
          return setState({ step: "failed", ...base, reason: reasonOf(error) });
        // The server rejected the content; retrying the upload does not help.
        kept.keep(null);
        setLocal(null);
        setState({ step: "refused", reason: wrongFile(upload.file.name, latest.current.accepts) });
      } finally {
        if (isCurrent()) latest.current.onPending?.(null);
      }
    },
    [kept],
  );

  const stop = useCallback(() => {
    running.current?.stop.abort();
    running.current = null;
    latest.current.onPending?.(null);
  }, []);

  const choose = useCallback(
    async (file: File) => {
      const wanted = latest.current.accepts;
      const reason =
        refusal(file, wanted) ??
        (looksLikeText(typeOf(file, wanted.kind), await headOf(file)) ? wrongFile(file.name, wanted) : null);
      // The current file stays, so a wrong file chosen by mistake loses nothing.
      if (reason !== null) return setState((now) => (now.step === "sending" ? now : { step: "refused", reason }));
      stop();
      const url = URL.createObjectURL(file);
      latest.current.onChange(null);
      kept.keep(file);
      setLocal({ id: null, url });
      setState({ step: "checking", file, url });
      const measured = await measure(url, wanted.kind);
      const unfit = measuredRefusal(file.name, measured, wanted);
      if (unfit !== null) {
        kept.keep(null);
        setLocal(null);
        return setState({ step: "refused", reason: unfit });
      }
      await send(new Upload(file, typeOf(file, wanted.kind)), url, measured);
    },
    [send, stop, kept],
  );

  const retry = useCallback(() => {
    const failed = running.current;
    if (failed !== null) void send(failed.upload, failed.url, failed.measured);
  }, [send]);

  const clear = useCallback(() => {
    stop();
    kept.keep(null);
    setLocal(null);
    setState({ step: "idle" });
    latest.current.onChange(null);
  }, [stop, kept]);

  useEffect(() => {
    const file = kept.get();
    if (file !== null) void choose(file);
    return stop;
  }, [choose, stop, kept]);
  // A file keeps its URL when it gets an id, so the effect depends on the URL alone.
  const localUrl = local?.url;
  useEffect(() => (localUrl === undefined ? undefined : () => URL.revokeObjectURL(localUrl)), [localUrl]);
  return { state, local, choose, retry, clear };
}

/** Empty for an unreadable file. Its upload reports the error. */
async function headOf(file: File): Promise<Uint8Array> {
  const head = await file
    .slice(0, HEAD_BYTES)
    .arrayBuffer()
    .catch(() => null);
  return head === null ? Uint8Array.of(0) : new Uint8Array(head);
}
