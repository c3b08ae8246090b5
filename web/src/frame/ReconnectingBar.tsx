import { useEffect, useState } from "react";
import { useConnection } from "@/api/connection";
import { frameTexts } from "@/texts/frame";

// A restart of a second needs no word.
const QUIET_MS = 1_500;

export function ReconnectingBar() {
  const isLost = useConnection() === "reconnecting";
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    if (!isLost) return setShown(false);
    const timer = setTimeout(() => setShown(true), QUIET_MS);
    return () => clearTimeout(timer);
  }, [isLost]);
  return (
    <div role="status" className={isShown ? "sticky top-0 z-20 border-b bg-warn-soft px-4 py-1.5 text-center text-s text-warn" : "sr-only"}>
      {isShown && `${frameTexts.reconnecting} ${frameTexts.reconnectingText}`}
    </div>
  );
}
