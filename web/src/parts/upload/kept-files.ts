// Chosen files whose upload is not done, kept while the tab is open. The sign-in page after the end of a session does
// not reload the application, so the chosen file is still there and its upload starts again.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { keys } from "@/api/keys";
import type { Me } from "@/api/types";

const files = new Map<string, File>();

export interface KeptFile {
  get: () => File | null;
  keep: (file: File | null) => void;
}

/** The file of one field and one user. The next user of this tab cannot find it. */
export function useKeptFile(field: string): KeptFile {
  const client = useQueryClient();
  // The user when the field was mounted. After the session ends, the user is unknown.
  const [kept] = useState((): KeptFile => {
    const key = `${client.getQueryData<Me>(keys.me)?.user_id ?? ""}:${field}`;
    return {
      get: () => files.get(key) ?? null,
      keep: (file) => void (file === null ? files.delete(key) : files.set(key, file)),
    };
  });
  return kept;
}

/** The user signed out on purpose. */
export function forgetFiles(): void {
  files.clear();
}
