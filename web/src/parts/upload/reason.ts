import { Unreachable } from "@client/problems";
import { explain, NetworkError } from "@/api/problems";
import { StorageRefusal } from "@/api/uploads";
import { uploadTexts } from "@/texts/upload";

/** Why an upload failed, for its user. */
export function reasonOf(error: unknown): string {
  if (error instanceof StorageRefusal) return uploadTexts.failedStorage;
  // The connection to the storage, which may be another host.
  return error instanceof Unreachable && !(error instanceof NetworkError) ? uploadTexts.failed : explain(error);
}
