import { useEffect, useState } from "react";

/** The clock for values that count. It stops while `isRunning` is false. */
export function useNow(milliseconds: number, isRunning = true): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!isRunning) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds, isRunning]);
  return now;
}
