// The one event stream of this tab: opened again after sleep, network loss or a restart, from where it was. A hidden tab
// has none.
//
// Read with fetch and not with EventSource, which cannot say why a stream was refused (429: poll instead).
import { setConnection } from "./connection";
import { announceSessionEnd } from "./session";
import { EventParser, type ServerEvent } from "./sse";

const URL = "/api/ai-jobs/stream";
// The server says something at least every 15 seconds. A laptop that slept has a connection that only looks open.
const SILENCE_MS = 40_000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
const POLL_MS = 5_000;
const TRY_STREAM_AGAIN_MS = 60_000;
// A proxy that cuts every stream at once makes a loop of connections; after so many the tab polls.
const SHORT_LIVES = 4;
const SHORT_LIFE_MS = 3_000;
// A browser opens six connections to a server without HTTP/2, for all of its tabs. Tabs that are hidden leave theirs to the
// others, except where a person is only looking at another tab for a moment.
const HIDDEN_MS = 5_000;

export interface StreamHandlers {
  onEvent: (event: ServerEvent) => void;
  /** The stream is open: what happened before it may have been missed. */
  onOpen: () => void;
  /** There is no stream; ask for what is shown. */
  onPoll: () => void;
}

export function followJobs(handlers: StreamHandlers): () => void {
  const stop = new AbortController();
  void new Follower(handlers, stop.signal).run();
  return () => stop.abort();
}

class Follower {
  #last: string | null = null;
  #failures = 0;
  #shortLives = 0;
  readonly #handlers: StreamHandlers;
  readonly #stopped: AbortSignal;

  constructor(handlers: StreamHandlers, stopped: AbortSignal) {
    this.#handlers = handlers;
    this.#stopped = stopped;
  }

  async run(): Promise<void> {
    setConnection("connecting");
    while (!this.#stopped.aborted) {
      await this.#untilVisible();
      if (this.#stopped.aborted) return;
      const started = Date.now();
      const outcome = await this.#readOnce();
      if (this.#stopped.aborted) return;
      if (outcome === "ended") return announceSessionEnd();
      if (outcome === "hidden") continue;
      this.#shortLives = outcome === "cut" && Date.now() - started < SHORT_LIFE_MS ? this.#shortLives + 1 : 0;
      if (outcome === "refused" || this.#shortLives >= SHORT_LIVES) await this.#poll();
      else await this.#waitToReconnect();
    }
  }

  /** Until the stream ends, for whatever reason. */
  async #readOnce(): Promise<"cut" | "failed" | "refused" | "ended" | "hidden"> {
    const silence = new AbortController();
    const hidden = new AbortController();
    const signal = AbortSignal.any([this.#stopped, silence.signal, hidden.signal]);
    const abort = () => silence.abort();
    let watchdog = setTimeout(abort, SILENCE_MS);
    const stopWatching = whenHidden(() => hidden.abort());
    // A connection of a network that is gone would look open until then.
    window.addEventListener("offline", abort);
    try {
      const headers: HeadersInit = this.#last === null ? {} : { "Last-Event-ID": this.#last };
      const response = await fetch(URL, { headers, signal, cache: "no-store" });
      if (response.status === 401) return "ended";
      if (response.status === 429) return "refused";
      if (!response.ok || response.body === null) return "failed";
      setConnection("live");
      this.#failures = 0;
      this.#handlers.onOpen();
      const parser = new EventParser();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return "cut";
        clearTimeout(watchdog);
        watchdog = setTimeout(abort, SILENCE_MS);
        for (const event of parser.feed(value)) {
          if (event.id !== null) this.#last = event.id;
          this.#handlers.onEvent(event);
        }
      }
    } catch {
      return hidden.signal.aborted ? "hidden" : "failed";
    } finally {
      clearTimeout(watchdog);
      stopWatching();
      window.removeEventListener("offline", abort);
    }
  }

  async #waitToReconnect(): Promise<void> {
    setConnection("reconnecting");
    const longest = Math.min(FIRST_WAIT_MS * 2 ** this.#failures, LONGEST_WAIT_MS);
    this.#failures += 1;
    // Not all tabs at the same moment after a restart.
    await this.#pause(longest * (0.5 + Math.random() / 2), ["online", "visibilitychange"]);
  }

  async #poll(): Promise<void> {
    setConnection("polling");
    const until = Date.now() + TRY_STREAM_AGAIN_MS;
    while (Date.now() < until && !this.#stopped.aborted) {
      if (document.visibilityState === "visible") this.#handlers.onPoll();
      await this.#pause(POLL_MS, []);
    }
    this.#shortLives = 0;
  }

  async #untilVisible(): Promise<void> {
    while (document.visibilityState === "hidden" && !this.#stopped.aborted) await this.#pause(null, ["visibilitychange"]);
  }

  /** Ends early when the network or the person comes back; `null` waits for nothing else. */
  #pause(milliseconds: number | null, wakers: string[]): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        for (const name of wakers) (name === "online" ? window : document).removeEventListener(name, done);
        this.#stopped.removeEventListener("abort", done);
        resolve();
      };
      const timer = milliseconds === null ? undefined : setTimeout(done, milliseconds);
      for (const name of wakers) (name === "online" ? window : document).addEventListener(name, done);
      this.#stopped.addEventListener("abort", done);
    });
  }
}

/** Calls `then` once the tab has been hidden for a while. Returns how to stop that. */
function whenHidden(then: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = () => {
    clearTimeout(timer);
    if (document.visibilityState === "hidden") timer = setTimeout(then, HIDDEN_MS);
  };
  document.addEventListener("visibilitychange", look);
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
  };
}
