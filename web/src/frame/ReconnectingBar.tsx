import { useEffect, useState } from "react";
import { useConnection } from "@/api/connection";
import { frameTexts } from "@/texts/frame";

// A restart that takes a second needs no message.
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
    // The bar is above the page, so the page does not move when the bar appears.
    <div
      role="status"
      className={
        isShown
          ? "appear pointer-events-none fixed inset-x-4 top-15 z-20 mx-auto w-fit max-w-2xl rounded-m border bg-warn-soft px-4 py-2 text-center text-s text-warn shadow-high"
          : "sr-only"
      }
    >
      {isShown && (
        <>
          <strong className="font-[550]">{frameTexts.reconnecting}</strong> {frameTexts.reconnectingText}
        </>
      )}
    </div>
  );
}
