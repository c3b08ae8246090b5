// Converts an earlier job into values of the form.
import type { QueryClient } from "@tanstack/react-query";
import { queryOptions } from "@tanstack/react-query";
import { fileQuery, jobQuery } from "@/api/queries";
import type { Effect, Job } from "@/api/types";
import type { FormValues, PlainValue } from "@/parts/form/values";
import { isFileType } from "@/parts/media";
import type { FileValue } from "@/parts/UploadField";

export interface Earlier {
  input: FileValue | null;
  values: FormValues;
}

export const earlierQuery = (client: QueryClient, effect: Effect | undefined, jobId: string | undefined) =>
  queryOptions({
    queryKey: ["earlier", effect?.id, jobId],
    queryFn: async (): Promise<Earlier> => {
      const job = await client.fetchQuery(jobQuery(jobId ?? ""));
      const sent = Object.entries(sentWith(job));
      const files = new Set(effect?.properties.filter((each) => isFileType(each.type)).map((each) => each.key));
      const values = sent.map(
        async ([key, value]) => [key, files.has(key) ? await fileOf(client, String(value)) : value] as const,
      );
      return { input: effect?.input ? inputOf(job) : null, values: Object.fromEntries(await Promise.all(values)) };
    },
    enabled: effect !== undefined && jobId !== undefined,
    staleTime: Infinity,
    retry: false,
  });

/**
 * The values of the earlier job for another file. The input that the effect works on is left out; without such an
 * input, all files are.
 */
export function withoutFiles(earlier: Earlier, effect: Effect): Earlier {
  if (effect.input) return { ...earlier, input: null };
  const files = new Set(effect.properties.filter((each) => isFileType(each.type)).map((each) => each.key));
  return { ...earlier, values: Object.fromEntries(Object.entries(earlier.values).filter(([key]) => !files.has(key))) };
}

function sentWith(job: Job): Record<string, PlainValue> {
  return (job.input_payload ?? {}) as Record<string, PlainValue>;
}

function inputOf(job: Job): FileValue | null {
  const file = job.inputs?.[0];
  if (file === undefined) return null;
  return { id: file.file_id, name: file.name, mimeType: file.mime_type, size: file.size, ...sizeOf(file) };
}

/** null if the file was deleted. */
async function fileOf(client: QueryClient, id: string): Promise<FileValue | null> {
  try {
    const file = await client.fetchQuery(fileQuery(id));
    return { id, name: file.name, mimeType: file.mime_type, size: file.size, ...sizeOf(file) };
  } catch {
    return null;
  }
}

function sizeOf(shown: { width?: number | null; height?: number | null; duration_seconds?: number | null }) {
  return {
    width: shown.width ?? undefined,
    height: shown.height ?? undefined,
    seconds: shown.duration_seconds ?? undefined,
  };
}
