import { useRef } from "react";

interface Signed {
  file_id: string;
  url?: string | null;
  url_expires_at?: string | null;
}
const SPARE_MS = 60_000;

/** Every response has new signed URLs. Keep the old one until it expires, or the player would restart. */
export function useSteadyUrls<File extends Signed>(files: readonly File[]): File[] {
  const kept = useRef(new Map<string, File>());
  return files.map((file) => {
    const before = kept.current.get(file.file_id);
    const isFresh = before?.url && before.url_expires_at && Date.parse(before.url_expires_at) - Date.now() > SPARE_MS;
    const steady = isFresh ? { ...file, url: before.url, url_expires_at: before.url_expires_at } : file;
    kept.current.set(file.file_id, steady);
    return steady;
  });
}
