import { EventParser } from "@client/sse";
import { describe, expect, test } from "vitest";

describe("server-sent events", () => {
  test("an event is complete with its empty line, however it was cut", () => {
    const text = 'id: 7\nevent: job.transition\ndata: {"seq": 3}\n\n: nothing new\n\nevent: progress\ndata: {}\n\n';
    for (const size of [1, 2, 5, text.length]) {
      const parser = new EventParser();
      const events = [];
      for (let at = 0; at < text.length; at += size) events.push(...parser.feed(text.slice(at, at + size)));
      expect(events).toEqual([
        { id: "7", name: "job.transition", data: '{"seq": 3}' },
        { id: null, name: "progress", data: "{}" },
      ]);
    }
  });

  test("lines of data belong together, and lines may end as on Windows", () => {
    expect(new EventParser().feed("data: a\r\ndata: b\r\n\r\n")).toEqual([{ id: null, name: "message", data: "a\nb" }]);
  });

  test("comments and unknown fields are ignored", () => {
    expect(new EventParser().feed(": open\n\nretry: 5\n\nwhat\n\n")).toEqual([]);
  });
});
