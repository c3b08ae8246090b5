// The tabs of one person in this browser share one event stream: one tab holds it and passes on what arrives.
//
// A browser opens six connections to a server without HTTP/2, for all of its tabs: with a stream of their own, seven visible
// tabs would block each other. The tabs agree by messages and not with Web Locks, which browsers have on https and localhost
// only: plain HTTP in a local network is where there is no HTTP/2.
import type { ConnectionState } from "./connection";
import type { ServerEvent } from "./sse";

/** What the tab that holds the stream passes on. */
export type News =
  | { kind: "event"; event: ServerEvent }
  | { kind: "open" }
  | { kind: "poll" }
  | { kind: "state"; state: ConnectionState };
type Message = { from: string } & (
  | News
  | { kind: "who" }
  | { kind: "asking" }
  | { kind: "here"; state: ConnectionState }
  | { kind: "left" }
);

// A tab on a busy machine may take longer: then two hold a stream for a moment, until one of them hears of the other.
const ANSWER_MS = 200;
const HERE_MS = 10_000;
// A tab that crashed says nothing more.
const SILENCE_MS = 25_000;
// A tab that asked first may be gone before it has opened the stream.
const FIRST_MS = 2_000;

export class Tabs {
  readonly #channel: BroadcastChannel;
  readonly #id = `${Date.now().toString(36).padStart(9, "0")}-${Math.random().toString(36).slice(2)}`;
  /** What it does about messages: depends on whether it asks, holds or follows. */
  #listener: (message: Message) => void = () => {};

  /** `person`: another one who signs in does not hear what is not theirs. */
  constructor(person: string) {
    this.#channel = new BroadcastChannel(`callsheet-stream-1-${person}`);
    this.#channel.onmessage = ({ data }: MessageEvent<Message>) => this.#listener(data);
  }

  close(): void {
    this.#listener = () => {};
    this.#channel.close();
  }

  share(news: News): void {
    this.#send(news);
  }

  /** Whether no other tab has the stream. Of tabs that ask at the same time, the oldest gets it. */
  isFree(): Promise<boolean> {
    return new Promise((resolve) => {
      const done = (isFree: boolean) => {
        clearTimeout(timer);
        resolve(isFree);
      };
      const timer = setTimeout(() => done(true), ANSWER_MS);
      this.#listener = ({ kind, from }) => {
        if (kind === "here" || kind === "asking") done(false);
        else if (kind === "who" && this.#id < from) this.#send({ kind: "asking" });
      };
      this.#send({ kind: "who" });
    });
  }

  /** Says to the others that this tab has the stream, until the returned function is called. `onOther`: an older tab has one, too. */
  hold(state: () => ConnectionState, onOther: () => void): () => void {
    const say = () => this.#send({ kind: "here", state: state() });
    const leave = () => this.#send({ kind: "left" });
    let isOther = false;
    this.#listener = ({ kind, from }) => {
      if (kind === "who") say();
      else if (kind === "here" && from < this.#id) {
        isOther = true;
        onOther();
      } else if (kind === "here") say();
    };
    const timer = setInterval(say, HERE_MS);
    window.addEventListener("pagehide", leave);
    say();
    return () => {
      clearInterval(timer);
      window.removeEventListener("pagehide", leave);
      this.#listener = () => {};
      if (!isOther) leave();
    };
  }

  /** Hears what another tab passes on, until that one leaves or says nothing more, or the signal is aborted. */
  follow(onNews: (news: News) => void, until: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      let hasJoined = false;
      const done = () => {
        clearTimeout(timer);
        until.removeEventListener("abort", done);
        this.#listener = () => {};
        resolve();
      };
      let timer = setTimeout(done, FIRST_MS);
      this.#listener = (message) => {
        if (message.kind === "who" || message.kind === "asking") return;
        clearTimeout(timer);
        timer = setTimeout(done, SILENCE_MS);
        switch (message.kind) {
          case "left":
            return done();
          case "here":
            onNews({ kind: "state", state: message.state });
            // What happened before this tab listened may have been missed.
            if (!hasJoined && message.state === "live") onNews({ kind: "open" });
            hasJoined = true;
            return;
          default:
            onNews(message);
        }
      };
      if (until.aborted) return done();
      until.addEventListener("abort", done);
      this.#send({ kind: "who" });
    });
  }

  #send(
    message: News | { kind: "who" } | { kind: "asking" } | { kind: "here"; state: ConnectionState } | { kind: "left" },
  ): void {
    this.#channel.postMessage({ ...message, from: this.#id } satisfies Message);
  }
}
