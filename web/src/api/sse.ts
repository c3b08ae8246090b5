// Server-sent events from a stream of text (the HTML standard's grammar, as far as our server uses it). Pure.
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
