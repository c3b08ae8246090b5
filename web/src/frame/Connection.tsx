import { type ConnectionState, useConnection } from "@/api/connection";
import { frameTexts } from "@/texts/frame";

const DOTS: Record<ConnectionState, string> = {
  live: "bg-ok",
  connecting: "bg-line-strong",
  reconnecting: "border-[1.5px] border-warn",
  polling: "rounded-[1px]! bg-run",
};
const TEXTS: Record<ConnectionState, [string, string]> = {
  live: [frameTexts.live, frameTexts.liveText],
  connecting: [frameTexts.connecting, frameTexts.connectingText],
  reconnecting: [frameTexts.reconnecting, frameTexts.reconnectingText],
  polling: [frameTexts.polling, frameTexts.pollingText],
};

export function Connection() {
  const state = useConnection();
  const [word, text] = TEXTS[state];
  return (
    <span className="flex min-h-9 items-center gap-2 px-2 text-xs text-muted" data-connection={state} title={text}>
      <ConnectionDot />
      {word}
    </span>
  );
}

export function ConnectionDot() {
  return <span className={`size-2 shrink-0 rounded-full ${DOTS[useConnection()]}`} aria-hidden />;
}
