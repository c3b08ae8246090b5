import { useQuery } from "@tanstack/react-query";
import { fileQuery } from "@/api/queries";

/** A file of an earlier visit or job, with a readable URL. */
export function useStoredFile(id: string | null) {
  return useQuery({ ...fileQuery(id ?? ""), enabled: id !== null });
}
