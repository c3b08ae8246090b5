// Reads text files at their signed URL, from the control plane or from the storage.
import { queryOptions } from "@tanstack/react-query";
import { NetworkError } from "./problems";

/** A page reads at most this many bytes. */
const MAX_BYTES = 200_000;

export interface ReadText {
  text: string;
  isWhole: boolean;
}

export const textQuery = (url: string) =>
  queryOptions({
    queryKey: ["text", url.split("?")[0]],
    queryFn: ({ signal }) => readText(url, signal),
    staleTime: Infinity,
    retry: 1,
  });

async function readText(url: string, signal: AbortSignal): Promise<ReadText> {
  const response = await fetch(url, { signal, credentials: "omit" }).catch(() => {
    throw new NetworkError();
  });
  if (!response.ok || response.body === null) throw new Error(`The text cannot be read (${response.status}).`);
  const pieces: Uint8Array[] = [];
  let size = 0;
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    pieces.push(value);
    size += value.length;
    if (size > MAX_BYTES) {
      await reader.cancel();
      break;
    }
  }
  const bytes = new Uint8Array(await new Blob(pieces as BlobPart[]).arrayBuffer());
  // The limit may have cut the last character.
  return {
    text: new TextDecoder().decode(bytes.subarray(0, MAX_BYTES)).replace(size > MAX_BYTES ? /\uFFFD+$/ : "", ""),
    isWhole: size <= MAX_BYTES,
  };
}
