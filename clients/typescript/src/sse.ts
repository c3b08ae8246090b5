// Server-sent events from a stream of text (the HTML standard's grammar, as far as our server uses it), and one
// connection that brings them.
export interface ServerEvent {
  id: string | null;
  name: string;
  data: string;
}

/** Takes text as it arrives and returns the complete events. It drops comments. */
export class EventParser {
  #rest = "";

  feed(text: string): ServerEvent[] {
    const blocks = (this.#rest + text).replaceAll("\r\n", "\n").split("\n\n");
    this.#rest = blocks.pop() ?? "";
    return blocks.map(parseBlock).filter((event) => event !== null);
  }
}

function parseBlock(block: string): ServerEvent | null {
  let id: string | null = null;
  let name = "message";
  const lines: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon < 1) continue;
    const value = line.slice(colon + 1).replace(/^ /, "");
    switch (line.slice(0, colon)) {
      case "id":
        id = value;
        break;
      case "event":
        name = value;
        break;
      case "data":
        lines.push(value);
    }
  }
  return lines.length === 0 ? null : { id, name, data: lines.join("\n") };
}

interface ConnectionOptions {
  /** The id of the last event that was seen. */
  after: string | null;
  signal: AbortSignal;
  /** The server sends something at least every 15 seconds. The connection of a laptop that slept only looks open. */
  silenceMs: number;
}

/**
 * Yields the events of one connection, and null for each sign of life: first when it is open. It ends when the server
 * closes the connection; a lost connection and silence throw. `open` sends the request and judges the response.
 */
export async function* connection(
  open: (headers: Record<string, string>, signal: AbortSignal) => Promise<Response>,
  { after, signal, silenceMs }: ConnectionOptions,
): AsyncGenerator<ServerEvent | null, void> {
  const own = new AbortController();
  const silent = () => own.abort(new DOMException("The stream is silent.", "TimeoutError"));
  let watchdog = setTimeout(silent, silenceMs);
  try {
    const response = await open(
      after === null ? {} : { "Last-Event-ID": after },
      AbortSignal.any([signal, own.signal]),
    );
    yield null;
    if (response.body === null) return;
    const parser = new EventParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(silent, silenceMs);
      const events = parser.feed(value);
      if (events.length === 0) yield null;
      yield* events;
    }
  } finally {
    clearTimeout(watchdog);
    own.abort();
  }
}
