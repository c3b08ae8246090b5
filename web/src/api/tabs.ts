// The tabs of one user in this browser share one event stream: one tab holds it and passes events on.
// Without HTTP/2 a browser opens six connections to a server, for all tabs together. Seven visible tabs with one stream
// each would block each other. The tabs agree by messages and not with Web Locks: browsers have locks on https and
// localhost only, and plain HTTP in a local network is where HTTP/2 is missing.

import type { ServerEvent } from "@client/sse";
import type { ConnectionState } from "./connection";

/** Messages that the tab with the stream passes on. */
export type News =
  | { kind: "event"; event: ServerEvent }
  | { kind: "open" }
  | { kind: "poll" }
  | { kind: "state"; state: ConnectionState };
type Message = { from: string } & (
  | News
  | { kind: "who" }
  | { kind: "requesting" }
  | { kind: "here"; state: ConnectionState }
  | { kind: "left" }
);

// A tab on a busy machine may take longer. Then two tabs hold a stream for a moment, until one of them receives a
// message of the other.
const RESPONSE_MS = 200;
const HERE_MS = 10_000;
// A tab that crashed sends nothing more.
const SILENCE_MS = 25_000;
// A tab that requested the stream first may close before it opens the stream.
const FIRST_MS = 2_000;

export class Tabs {
  readonly #channel: BroadcastChannel;
  readonly #id = `${Date.now().toString(36).padStart(9, "0")}-${Math.random().toString(36).slice(2)}`;
  /** Handles messages. The handler depends on whether this tab requests, holds or follows the stream. */
  #listener: (message: Message) => void = () => {};

  /** `person`: the id of the user. Another user who signs in gets no messages of this user. */
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

  /** Whether no other tab has the stream. If several tabs ask at the same time, the oldest tab gets it. */
  isFree(): Promise<boolean> {
    return new Promise((resolve) => {
      const done = (isFree: boolean) => {
        clearTimeout(timer);
        resolve(isFree);
      };
      const timer = setTimeout(() => done(true), RESPONSE_MS);
      this.#listener = ({ kind, from }) => {
        if (kind === "here" || kind === "requesting") done(false);
        else if (kind === "who" && this.#id < from) this.#send({ kind: "requesting" });
      };
      this.#send({ kind: "who" });
    });
  }

  /**
   * Announces to the other tabs that this tab has the stream, until the returned function is called. `onOther`: an
   * older tab has one too.
   */
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

  /** Receives the messages of another tab until that tab leaves or falls silent, or the signal is aborted. */
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
        if (message.kind === "who" || message.kind === "requesting") return;
        clearTimeout(timer);
        timer = setTimeout(done, SILENCE_MS);
        switch (message.kind) {
          case "left":
            return done();
          case "here":
            onNews({ kind: "state", state: message.state });
            // Events from before this tab listened may be missing.
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
    message:
      | News
      | { kind: "who" }
      | { kind: "requesting" }
      | { kind: "here"; state: ConnectionState }
      | { kind: "left" },
  ): void {
    this.#channel.postMessage({ ...message, from: this.#id } satisfies Message);
  }
}
