import { useEffect, useRef, useState } from "react";

const SHOWN_MS = 2_500;

/** Difference of a number that has just changed; null a moment later. */
export function useDelta(value: number | undefined): number | null {
  const before = useRef(value);
  const [delta, setDelta] = useState<number | null>(null);
  useEffect(() => {
    const last = before.current;
    before.current = value;
    if (last === undefined || value === undefined || last === value) return;
    setDelta(value - last);
    const timer = setTimeout(() => setDelta(null), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return delta;
}
