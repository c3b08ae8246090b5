// What happens to this person's jobs, over one event stream for all visible tabs: this tab holds it, or follows the tab that does.
// It is opened again after sleep, network loss or a restart, from where it was. A hidden tab does neither.
//
// Read with fetch and not with EventSource, which cannot say why a stream was refused (429: poll instead).
import { type ConnectionState, connectionState, setConnection } from "./connection";
import { announceSessionEnd } from "./session";
import { EventParser, type ServerEvent } from "./sse";
import { type News, Tabs } from "./tabs";

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
// A tab that is hidden leaves the stream to the others, except where a person is only looking at another tab for a moment.
const HIDDEN_MS = 5_000;

export interface StreamHandlers {
  onEvent: (event: ServerEvent) => void;
  /** The stream is open: what happened before it may have been missed. */
  onOpen: () => void;
  /** There is no stream; ask for what is shown. */
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

  /** Has the stream, and opens it again, until the tab is hidden or another one has it. */
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

  /** Hears of events from the tab that has the stream, until that one leaves or this one is hidden. */
  async #follow(): Promise<void> {
    const hidden = new AbortController();
    const stopWatching = whenHidden(() => hidden.abort());
    await this.#tabs.follow((news) => this.#take(news), AbortSignal.any([this.#stopped, hidden.signal]));
    stopWatching();
  }

  /** News of this tab's stream, for the others too. */
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
        // Also of an event that another tab received: this one may have to go on from there.
        if (news.event.id !== null) this.#last = news.event.id;
        this.#handlers.onEvent(news.event);
    }
  }

  #show(state: ConnectionState): void {
    this.#pass({ kind: "state", state });
  }

  /** Until the stream ends, for whatever reason. */
  async #readOnce(given: AbortSignal): Promise<"cut" | "failed" | "refused" | "ended" | "hidden"> {
    const silence = new AbortController();
    const hidden = new AbortController();
    const signal = AbortSignal.any([given, silence.signal, hidden.signal]);
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
      this.#failures = 0;
      this.#show("live");
      this.#pass({ kind: "open" });
      const parser = new EventParser();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return "cut";
        clearTimeout(watchdog);
        watchdog = setTimeout(abort, SILENCE_MS);
        for (const event of parser.feed(value)) this.#pass({ kind: "event", event });
      }
    } catch {
      return hidden.signal.aborted ? "hidden" : "failed";
    } finally {
      clearTimeout(watchdog);
      stopWatching();
      window.removeEventListener("offline", abort);
    }
  }

  async #waitToReconnect(given: AbortSignal): Promise<void> {
    this.#show("reconnecting");
    const longest = Math.min(FIRST_WAIT_MS * 2 ** this.#failures, LONGEST_WAIT_MS);
    this.#failures += 1;
    // Not all tabs at the same moment after a restart.
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

/** Ends early with the signal, or when the network or the person comes back; `null` waits for nothing else. */
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
