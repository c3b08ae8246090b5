// Chosen files whose upload is not done, for as long as the tab is open. A session that ends leads to the sign-in page and
// back without loading the application again, so a file that was chosen before is still there and its upload starts anew.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { keys } from "@/api/keys";
import type { Me } from "@/api/types";

const files = new Map<string, File>();

export interface KeptFile {
  get: () => File | null;
  keep: (file: File | null) => void;
}

/** Of one field of one person: the next user of this tab does not find it. */
export function useKeptFile(field: string): KeptFile {
  const client = useQueryClient();
  // Of when the field appeared: at the end of a session it is not known any more who it was.
  const [kept] = useState((): KeptFile => {
    const key = `${client.getQueryData<Me>(keys.me)?.user_id ?? ""}:${field}`;
    return {
      get: () => files.get(key) ?? null,
      keep: (file) => void (file === null ? files.delete(key) : files.set(key, file)),
    };
  });
  return kept;
}

/** The user has signed out on purpose. */
export function forgetFiles(): void {
  files.clear();
}
