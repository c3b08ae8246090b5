// What a user has typed, kept until the tab is closed: a session that ends in the middle loses no form.
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
    return initial; // the browser keeps nothing for this page, or something else wrote there
  }
}

/** Of one person: the next user of this tab does not find it. Like useState. `clear` forgets the draft, after it was sent. */
export function useDraft<Value>(
  name: string,
  initial: Value,
): [Value, (next: Value | ((now: Value) => Value)) => void, () => void] {
  const client = useQueryClient();
  // Of when the form appeared: at the end of a session it is not known any more who it was.
  const [user] = useState(() => client.getQueryData<Me>(keys.me)?.user_id ?? "");
  const key = `${user}:${name}`;
  const [value, setValue] = useState(() => read(key, initial));
  useEffect(() => {
    try {
      sessionStorage.setItem(PREFIX + key, JSON.stringify(value));
    } catch {
      // Full, or not allowed: the form works without.
    }
  }, [key, value]);
  const clear = useCallback(() => {
    setValue(initial);
    sessionStorage.removeItem(PREFIX + key);
  }, [key, initial]);
  return [value, setValue, clear];
}
