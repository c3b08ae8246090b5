// Keeps the typed values of a form until the tab closes, so the end of a session loses nothing.
import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useState } from "react";
import { keys } from "@/api/keys";
import type { Me } from "@/api/types";

const PREFIX = "draft:";

function read<Value>(key: string, initial: Value): Value {
  try {
    const kept = sessionStorage.getItem(PREFIX + key);
    return kept === null ? initial : (JSON.parse(kept) as Value);
  } catch {
    return initial; // the browser forbids storage for this page, or the stored value is invalid
  }
}

/**
 * A draft of one user, with the interface of useState. The next user of this tab cannot read it. `clear` forgets the
 * draft after it was sent.
 */
export function useDraft<Value>(
  name: string,
  initial: Value,
): [Value, (next: Value | ((now: Value) => Value)) => void, () => void] {
  const client = useQueryClient();
  // The user when the form was mounted. After the session ends, the user is unknown.
  const [user] = useState(() => client.getQueryData<Me>(keys.me)?.user_id ?? "");
  const key = `${user}:${name}`;
  const [value, setValue] = useState(() => read(key, initial));
  useEffect(() => {
    try {
      sessionStorage.setItem(PREFIX + key, JSON.stringify(value));
    } catch {
      // The storage is full or forbidden. The form works without it.
    }
  }, [key, value]);
  const clear = useCallback(() => {
    setValue(initial);
    sessionStorage.removeItem(PREFIX + key);
  }, [key, initial]);
  return [value, setValue, clear];
}
