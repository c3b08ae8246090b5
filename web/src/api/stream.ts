// One event stream of the user's jobs for all visible tabs. This tab holds the stream, or follows the tab that holds
// it. After sleep, network loss or a restart the stream is opened again where it ended. A hidden tab does neither.
// The stream is read with fetch. EventSource cannot report why a stream was refused (429: poll instead).

import { connection, type ServerEvent } from "@client/sse";
import { type ConnectionState, connectionState, setConnection } from "./connection";
import { announceSessionEnd } from "./session";
import { type News, Tabs } from "./tabs";

const URL = "/api/ai-jobs/stream";
// The server sends something at least every 15 seconds. The connection of a laptop that slept only looks open.
const SILENCE_MS = 40_000;
const FIRST_WAIT_MS = 500;
const MAX_WAIT_MS = 15_000;
const POLL_MS = 5_000;
const TRY_STREAM_AGAIN_MS = 60_000;
// A proxy that cuts every stream at once would cause a loop of connections. After this many cuts the tab polls.
const SHORT_LIVES = 4;
const SHORT_LIFE_MS = 3_000;
// A hidden tab leaves the stream to the other tabs after this delay. A short visit to another tab changes nothing.
const HIDDEN_MS = 5_000;

export interface StreamHandlers {
  onEvent: (event: ServerEvent) => void;
  /** The stream is open. Earlier events may be missing. */
  onOpen: () => void;
  /** There is no stream, so the page must refetch what it shows. */
  onPoll: () => void;
}

export function followJobs(person: string, handlers: StreamHandlers): () => void {
  const stop = new AbortController();
  const tabs = new Tabs(person);
  void new Follower(handlers, tabs, stop.signal).run().finally(() => tabs.close());
  return () => stop.abort();
}

class Follower {
  #last: string | null = null;
  #failures = 0;
  #shortLives = 0;
  readonly #handlers: StreamHandlers;
  readonly #tabs: Tabs;
  readonly #stopped: AbortSignal;

  constructor(handlers: StreamHandlers, tabs: Tabs, stopped: AbortSignal) {
    this.#handlers = handlers;
    this.#tabs = tabs;
    this.#stopped = stopped;
  }

  async run(): Promise<void> {
    setConnection("connecting");
    while (!this.#stopped.aborted) {
      await this.#untilVisible();
      const isFree = await this.#tabs.isFree();
      if (this.#stopped.aborted) return;
      if (!isFree) await this.#follow();
      else if ((await this.#hold()) === "ended") return announceSessionEnd();
    }
  }

  /** Holds the stream and opens it again until the tab is hidden or another tab holds it. */
  async #hold(): Promise<"ended" | "left"> {
    const other = new AbortController();
    const given = AbortSignal.any([this.#stopped, other.signal]);
    const release = this.#tabs.hold(connectionState, () => other.abort());
    try {
      while (!given.aborted && document.visibilityState === "visible") {
        const started = Date.now();
        const outcome = await this.#readOnce(given);
        if (outcome === "ended") return "ended";
        if (given.aborted || outcome === "hidden") break;
        this.#shortLives = outcome === "cut" && Date.now() - started < SHORT_LIFE_MS ? this.#shortLives + 1 : 0;
        if (outcome === "refused" || this.#shortLives >= SHORT_LIVES) await this.#poll(given);
        else await this.#waitToReconnect(given);
      }
      return "left";
    } finally {
      release();
    }
  }

  /** Receives events from the tab that holds the stream, until that tab leaves or this tab is hidden. */
  async #follow(): Promise<void> {
    const hidden = new AbortController();
    const stopWatching = whenHidden(() => hidden.abort());
    await this.#tabs.follow((news) => this.#take(news), AbortSignal.any([this.#stopped, hidden.signal]));
    stopWatching();
  }

  /** Handles news of this tab's stream and shares them with the other tabs. */
  #pass(news: News): void {
    this.#take(news);
    this.#tabs.share(news);
  }

  #take(news: News): void {
    switch (news.kind) {
      case "state":
        setConnection(news.state);
        break;
      case "open":
        this.#handlers.onOpen();
        break;
      case "poll":
        this.#handlers.onPoll();
        break;
      case "event":
        // Events from another tab count too: this tab may have to continue the stream from there.
        if (news.event.id !== null) this.#last = news.event.id;
        // The server lost events that this page has shown.
        if (news.event.name === "reset") this.#handlers.onOpen();
        else this.#handlers.onEvent(news.event);
    }
  }

  #show(state: ConnectionState): void {
    this.#pass({ kind: "state", state });
  }

  /** Reads until the stream ends, and returns the cause. */
  async #readOnce(given: AbortSignal): Promise<"cut" | "failed" | "refused" | "ended" | "hidden"> {
    const offline = new AbortController();
    const hidden = new AbortController();
    const signal = AbortSignal.any([given, offline.signal, hidden.signal]);
    const stopWatching = whenHidden(() => hidden.abort());
    // The browser reports a lost network at once. The silence would be noticed only later.
    const lose = () => offline.abort();
    window.addEventListener("offline", lose);
    let outcome: "failed" | "refused" | "ended" = "failed";
    const open = async (headers: HeadersInit, ends: AbortSignal) => {
      const response = await fetch(URL, { headers, signal: ends, cache: "no-store" });
      if (response.status === 401) outcome = "ended";
      if (response.status === 429) outcome = "refused";
      if (!response.ok) throw new Error(`The stream was refused (${response.status}).`);
      this.#failures = 0;
      this.#show("live");
      this.#pass({ kind: "open" });
      return response;
    };
    try {
      const events = connection(open, { after: this.#last, signal, silenceMs: SILENCE_MS });
      for await (const event of events) if (event !== null) this.#pass({ kind: "event", event });
      return "cut";
    } catch {
      return hidden.signal.aborted ? "hidden" : outcome;
    } finally {
      stopWatching();
      window.removeEventListener("offline", lose);
    }
  }

  async #waitToReconnect(given: AbortSignal): Promise<void> {
    this.#show("reconnecting");
    const longest = Math.min(FIRST_WAIT_MS * 2 ** this.#failures, MAX_WAIT_MS);
    this.#failures += 1;
    // After a restart the tabs must not all connect at the same moment.
    await pause(longest * (0.5 + Math.random() / 2), given, ["online", "visibilitychange"]);
  }

  async #poll(given: AbortSignal): Promise<void> {
    this.#show("polling");
    const until = Date.now() + TRY_STREAM_AGAIN_MS;
    while (Date.now() < until && !given.aborted && document.visibilityState === "visible") {
      this.#pass({ kind: "poll" });
      await pause(POLL_MS, given, ["visibilitychange"]);
    }
    this.#shortLives = 0;
  }

  async #untilVisible(): Promise<void> {
    while (document.visibilityState === "hidden" && !this.#stopped.aborted)
      await pause(null, this.#stopped, ["visibilitychange"]);
  }
}

/**
 * Waits. The wait ends early with the signal, or when the network or the user comes back. With `null` only these end
 * it.
 */
function pause(milliseconds: number | null, until: AbortSignal, wakers: string[]): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      for (const name of wakers) (name === "online" ? window : document).removeEventListener(name, done);
      until.removeEventListener("abort", done);
      resolve();
    };
    const timer = milliseconds === null ? undefined : setTimeout(done, milliseconds);
    for (const name of wakers) (name === "online" ? window : document).addEventListener(name, done);
    until.addEventListener("abort", done);
    if (until.aborted) done();
  });
}

/** Calls `then` after the tab was hidden for a while. Returns a function that stops it. */
function whenHidden(then: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const check = () => {
    clearTimeout(timer);
    if (document.visibilityState === "hidden") timer = setTimeout(then, HIDDEN_MS);
  };
  document.addEventListener("visibilitychange", check);
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", check);
  };
}
