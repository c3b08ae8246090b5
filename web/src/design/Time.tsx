import { useEffect, useState } from "react";
import { absoluteTime, relativeTime, untilNextChange } from "./times";

/** A relative time. Its title is the absolute time in the reader's zone. */
export function Time({ at, className }: { at: string; className?: string }) {
  const [now, setNow] = useState(() => new Date());
  const date = new Date(at);
  useEffect(() => {
    const timer = setTimeout(() => setNow(new Date()), untilNextChange(new Date(at), now));
    return () => clearTimeout(timer);
  }, [at, now]);
  return (
    <time dateTime={at} title={absoluteTime(date)} className={className}>
      {relativeTime(date, now)}
    </time>
  );
}
