import { describe, expect, it } from "vitest";
import { failedNodeOf, marksOf, nodeSpans, timesOf } from "@/pages/operate/job/node-marks";
import {
  MAX_NODES,
  nodesIn,
  rangeOf,
  rowsOf,
  type Span,
  shortDuration,
  ticksOf,
  type Waterfall,
} from "@/pages/operate/job/waterfall";
import { readGraph } from "@/parts/graph/graph";

const START = Date.parse("2026-03-04T12:00:00Z");
const at = (seconds: number) => new Date(START + seconds * 1000).toISOString();

function span(id: string, kind: Span["kind"], from: number, to: number | null, rest: Partial<Span> = {}): Span {
  return {
    id,
    kind,
    name: kind,
    started_at: at(from),
    ended_at: to === null ? null : at(to),
    duration_ms: ((to ?? 100) - from) * 1000,
    charge_cycle: 1,
    cached: false,
    parent_id: null,
    ...rest,
  } as Span;
}

function waterfall(spans: Span[]): Waterfall {
  return { spans, events: [], transactions: [] } as unknown as Waterfall;
}

const FOUND = waterfall([
  span("1", "accepted", 0, 1),
  span("2", "queued", 1, 10),
  span("3", "attempt", 10, 20, { attempt: 1, worker_id: "gpu-1", outcome: "queued", reason: "no memory" }),
  span("4", "queued", 20, 50),
  span("5", "attempt", 50, null, { attempt: 2, worker_id: "gpu-2" }),
  span("6", "phase", 50, 60, { parent_id: "5", attempt: 2, name: "download" }),
  span("7", "node", 60, 60, { parent_id: "5", attempt: 2, name: "1", cached: true }),
  span("8", "node", 60, 90, { parent_id: "5", attempt: 2, name: "3" }),
]);

describe("the waterfall of a job", () => {
  it("shows every span in its place, with the names of nodes", () => {
    const graph = readGraph({ "3": { class_type: "KSampler", inputs: {}, _meta: { title: "<i>Sample</i>" } } });
    const rows = rowsOf(FOUND, rangeOf(FOUND, undefined), graph, true);
    expect(rows.map((row) => row.label)).toEqual([
      "Accepted",
      "Waiting for a worker",
      "Attempt 1 on gpu-1",
      "Waiting for a worker",
      "Attempt 2 on gpu-2",
      "Download of the inputs",
      "Node",
      "<i>Sample</i>",
    ]);
    expect(rows[2]!.note).toBe("put back into the queue: no memory");
    expect(rows[7]!.note).toBe("#3 KSampler");
    expect([rows[4]!.left, rows[4]!.width]).toEqual([50, 50]);
    expect(rows.every((row) => row.left >= 0 && row.left + row.width <= 100.001)).toBe(true);
  });

  it("names the request that started a span once", () => {
    const confirming = waterfall([
      span("1", "accepted", 0, 1, { request_id: "first" }),
      span("2", "queued", 1, 10, { request_id: "first" }),
      span("3", "attempt", 10, 20, { attempt: 1, request_id: "poll" }),
      span("4", "phase", 10, 20, { parent_id: "3", attempt: 1, name: "run" }),
      span("5", "queued", 20, 50, { request_id: null }),
      span("6", "ended", 50, 50, { name: "failed", request_id: "poll" }),
      span("7", "ended", 60, 60, { name: "canceled", request_id: "last" }),
    ]);
    const rows = rowsOf(confirming, rangeOf(confirming, undefined), null, true);
    expect(rows.map((row) => row.request)).toEqual(["first", null, "poll", null, null, "poll", "last"]);
  });

  it("shows one attempt alone, over the whole width", () => {
    const range = rangeOf(FOUND, 2);
    const rows = rowsOf(FOUND, range, null, true);
    // The wait that ended when it started is not a part of it.
    expect(rows.map((row) => row.span.id)).toEqual(["5", "6", "7", "8"]);
    expect([rows[1]!.left, rows[1]!.width]).toEqual([0, 20]);
    expect(rangeOf(FOUND, 99)).toEqual(rangeOf(FOUND, undefined));
  });

  it("shows the longest nodes of many until all are confirming for", () => {
    const nodes = Array.from({ length: 200 }, (_, index) =>
      span(`n${index}`, "node", index, index + (index === 70 ? 9 : 0.1), {
        parent_id: "a",
        attempt: 1,
        name: String(index),
      }),
    );
    const many = waterfall([span("a", "attempt", 0, 300, { attempt: 1 }), ...nodes]);
    const range = rangeOf(many, undefined);
    const rows = rowsOf(many, range, null, false);
    expect(rows).toHaveLength(1 + MAX_NODES);
    expect(rows.some((row) => row.span.id === "n70")).toBe(true);
    expect(rowsOf(many, range, null, true)).toHaveLength(201);
    expect(nodesIn(many, range)).toBe(200);
  });

  it("has few round marks on its axis, however long it took", () => {
    for (const seconds of [0.003, 0.4, 7, 61, 3_700, 90_000, 40 * 86_400]) {
      const ticks = ticksOf({ start: START, end: START + seconds * 1000 });
      expect(ticks.length).toBeGreaterThanOrEqual(2);
      expect(ticks.length).toBeLessThanOrEqual(8);
      expect(ticks[0]).toEqual({ left: 0, milliseconds: 0 });
      expect(ticks.every((tick) => tick.left <= 100)).toBe(true);
    }
    const instant = waterfall([span("1", "accepted", 0, 0)]);
    expect(rowsOf(instant, rangeOf(instant, undefined), null, true)[0]).toMatchObject({ left: 0, width: 0 });
  });

  it("writes durations from milliseconds to days", () => {
    expect([0, 40, 300, 1_000, 12_600, 60_000, 72_000, 7_500_000, 273_600_000].map(shortDuration)).toEqual([
      "0",
      "40 ms",
      "300 ms",
      "1 s",
      "12.6 s",
      "1 m",
      "1 m 12 s",
      "2 h 5 m",
      "3 d 4 h",
    ]);
  });
});

describe("times of nodes on the graph", () => {
  it("sums the runs of a node, and marks what was cached", () => {
    const again = waterfall([...FOUND.spans, span("9", "node", 90, 95, { parent_id: "5", attempt: 2, name: "3" })]);
    const times = timesOf(nodeSpans(again, undefined));
    expect(times.get("3")).toEqual({ milliseconds: 35_000, runs: 2 });
    expect(times.get("1")).toEqual({ milliseconds: 0, runs: 0 });
    const marks = marksOf(times, null, null);
    expect(marks.get("1")).toEqual({ badges: ["cached"] });
    expect(marks.get("3")).toEqual({ badges: ["35 s"], heat: 1 });
    expect(nodeSpans(again, 1)).toEqual([]);
  });

  it("lights the node that runs and marks the one that failed", () => {
    const marks = marksOf(new Map(), "4", "5");
    expect(marks.get("4")).toMatchObject({ isRunning: true, tone: "run" });
    expect(marks.get("5")).toMatchObject({ tone: "bad" });
    expect([{ node_id: 7 }, { node_id: "7" }, { node_id: {} }, null, "x"].map(failedNodeOf)).toEqual([
      "7",
      "7",
      null,
      null,
      null,
    ]);
  });
});
