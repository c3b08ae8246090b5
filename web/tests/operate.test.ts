import { describe, expect, it } from "vitest";
import { alone, stepsFor } from "@/design/chart-values";
import { beyond } from "@/design/reveal";
import { nameOf, newAlerts } from "@/frame/hidden-alerts";
import { placeOf } from "@/pages/operate/overview/alert-places";
import {
  failedShare,
  idleShare,
  isLate,
  latest,
  type Point,
  percent,
  perMinute,
  worst,
} from "@/pages/operate/overview/figures";
import { agentOf, customNodesOf } from "@/pages/operate/worker/capabilities";
import { bars, busyShare } from "@/pages/operate/worker/hours";
import { queuedText, waitingText } from "@/parts/queued-jobs";
import { drainText, stateOf, versionsOf, type Worker } from "@/parts/worker/state";

const START = Date.parse("2026-03-04T12:00:00Z");

function point(minute: number, values: Partial<Point> = {}): Point {
  return {
    at: new Date(START + minute * 60_000).toISOString(),
    completed: 0,
    failed: 0,
    canceled: 0,
    expired: 0,
    ...values,
  };
}

function worker(values: Partial<Worker> = {}): Worker {
  return {
    is_live: true,
    is_approved: true,
    is_draining: false,
    revoked_at: null,
    current_load: 0,
    capabilities: {},
    ...values,
  } as Worker;
}

describe("jobs that wait", () => {
  const queue = (queued: number, delayed = 0) => ({ queued, delayed });

  it("are counted exactly, workflow by workflow", () => {
    expect(queuedText([])).toBe("0");
    expect(queuedText([queue(990), queue(190, 7)])).toBe("1.2K");
    expect(waitingText(queue(12, 3))).toBe("15");
  });

  it("are more than the server counts of one workflow", () => {
    expect(queuedText([queue(1000), queue(20)])).toBe("1K+");
    expect(waitingText(queue(1000, 3))).toBe("1K+");
    // The last sample counts further.
    expect(queuedText([queue(1000), queue(20)], 48_200)).toBe("48.2K");
    expect(queuedText([queue(1000), queue(20)], 300)).toBe("1K+");
  });
});

describe("figures of the overview", () => {
  it("counts finished jobs over the time that has passed, not over the last step that is not over", () => {
    const points = [point(0, { completed: 30 }), point(1, { completed: 30, failed: 5, expired: 1, canceled: 9 })];
    expect(perMinute(points, 60, new Date(START + 90_000))).toBe(44);
    expect(failedShare(points)).toBeCloseTo(6 / 66);
  });

  it("has no share without finished jobs or slots", () => {
    expect(failedShare([point(0)])).toBeNull();
    expect(idleShare([point(0)])).toBeNull();
    expect(perMinute([], 60, new Date(START))).toBe(0);
  });

  it("takes the last sample, and the worst percentile", () => {
    const points = [
      point(0, { queued: 4, wait_p95_seconds: 9 }),
      point(1, { queued: 0, wait_p95_seconds: 3 }),
      point(2),
    ];
    expect(latest(points, (each) => each.queued)).toBe(0);
    expect(worst(points, (each) => each.wait_p95_seconds)).toBe(9);
    expect(worst([point(0)], (each) => each.wait_p95_seconds)).toBeNull();
  });

  it("shows small shares with a decimal", () => {
    expect([0, 0.004, 0.5, 1].map(percent)).toEqual(["0 %", "0.4 %", "50 %", "100 %"]);
    expect(idleShare([point(0, { slots: 4, busy_slots: 3 }), point(1, { slots: 4, busy_slots: 1 })])).toBe(0.5);
  });
});

describe("charts of shares", () => {
  it("have one value for each step that has something to divide by", () => {
    const points = [
      point(0),
      point(1, { completed: 3, failed: 1 }),
      point(2, { expired: 2, canceled: 5 }),
      point(3, { completed: 4 }),
      point(4, { canceled: 1 }),
    ];
    expect(points.map((each) => failedShare([each]))).toEqual([null, 0.25, 1, 0, null]);
  });

  it("count slots, so that a worker with two slots and one job is half idle", () => {
    const points = [
      point(0),
      point(1, { slots: 0, busy_slots: 0 }),
      point(2, { slots: 2, busy_slots: 1 }),
      point(3, { slots: 5, busy_slots: 0 }),
      point(4, { slots: 2.5, busy_slots: 2.5 }),
    ];
    expect(points.map((each) => idleShare([each]))).toEqual([null, null, 0.5, 1, 0]);
  });
});

describe("the check of alerts", () => {
  it("is late when several checks were missed", () => {
    const at = "2026-03-04T12:00:00Z";
    expect(isLate({ at, checked_at: "2026-03-04T11:59:00Z" })).toBe(false);
    expect(isLate({ at, checked_at: "2026-03-04T11:58:00Z" })).toBe(true);
    expect(isLate({ at, checked_at: null })).toBe(false);
  });
});

describe("the state of a worker", () => {
  it("is the one that matters most", () => {
    expect(stateOf(worker())).toBe("idle");
    expect(stateOf(worker({ current_load: 1 }))).toBe("busy");
    expect(stateOf(worker({ is_draining: true, current_load: 1 }))).toBe("draining");
    expect(stateOf(worker({ is_draining: true }))).toBe("drained");
    expect(stateOf(worker({ is_approved: false }))).toBe("unapproved");
    expect(stateOf(worker({ is_live: false, current_load: 1 }))).toBe("offline");
    expect(stateOf(worker({ revoked_at: "2026-03-04T12:00:00Z", is_live: false }))).toBe("revoked");
  });

  it("says who drained it", () => {
    const drained = { is_draining: true, drained_by: "admin:01a1", drained_by_email: "ann@example.com" };
    expect(drainText(worker(drained))).toBe("Drained by ann@example.com");
    expect(drainText(worker({ ...drained, drain_reason: "new disk" }))).toBe("Drained by ann@example.com: new disk");
    expect(drainText(worker({ ...drained, drained_by_email: null }))).toBe("Drained by admin:01a1");
    expect(drainText(worker({ is_draining: true, drained_by: "operator" }))).toBe("Drained by the command line");
    expect(drainText(worker())).toBeNull();
  });

  it("names the versions of its engines", () => {
    expect(
      versionsOf(worker({ capabilities: { engines: { self_hosted: "0.7.0", cloud: "1.2", odd: {} }, gpu: "H200" } })),
    ).toBe("self_hosted 0.7.0, cloud 1.2");
    expect(versionsOf(worker({ capabilities: { engines: "none" } }))).toBe("");
  });
});

describe("hidden alerts", () => {
  const waits = { code: "long_wait", subject: "upscale", severity: "warning", since: "2026-01-01T00:00:00Z" };

  it("hides an alert until it starts again or gets worse", () => {
    const hidden = new Set([nameOf(waits)]);
    expect(newAlerts([waits], hidden)).toEqual([]);
    const again = { ...waits, since: "2026-01-02T00:00:00Z" };
    const worse = { ...waits, severity: "critical" };
    expect(newAlerts([waits, again, worse], hidden)).toEqual([again, worse]);
  });
});

describe("utilisation of a worker", () => {
  const now = new Date("2026-01-02T10:20:00Z");

  it("has a bar for each of 24 hours, empty where the worker was offline", () => {
    const shown = bars([{ at: "2026-01-02T10:00:00Z", busy_share: 0.5, minutes: 20 }], now);
    expect(shown).toHaveLength(24);
    expect(shown[23]).toEqual({ at: new Date("2026-01-02T10:00:00Z"), share: 0.5 });
    expect(shown[0]).toEqual({ at: new Date("2026-01-01T11:00:00Z"), share: null });
  });

  it("weighs hours by the minutes online", () => {
    const hours = [
      { at: "2026-01-02T09:00:00Z", busy_share: 1, minutes: 30 },
      { at: "2026-01-02T10:00:00Z", busy_share: 0, minutes: 10 },
    ];
    expect(busyShare(hours)).toBe(0.75);
    expect(busyShare([])).toBeNull();
  });

  it("shows what an agent reports and nothing else", () => {
    expect(agentOf({ agent: "1.2" })).toBe("1.2");
    expect(agentOf({ agent: { version: 1 } })).toBeNull();
    expect(customNodesOf({ custom_nodes: ["impact-pack", 7] })).toEqual([{ name: "impact-pack", version: null }]);
    const versions = { a: "8.2.1", b: "63d21361e08440a8836edc23dca4fb0d6c616c05", c: 7 };
    expect(
      customNodesOf({ custom_nodes: ["a", "b", "c", "toString"], custom_node_versions: versions }).map(
        (each) => each.version,
      ),
    ).toEqual(["8.2.1", "63d21361e0", null, null]);
    expect(customNodesOf({ custom_nodes: ["a"], custom_node_versions: "x" })).toEqual([{ name: "a", version: null }]);
    expect(customNodesOf({ custom_nodes: "x" })).toEqual([]);
  });
});

describe("charts", () => {
  it("has marks at whole numbers where counts are drawn", () => {
    expect(stepsFor([[0, 3, null], [7]])[0]).toBe(1);
    expect(stepsFor([[0, 0.4, null]])).toContain(0.25);
  });

  it("draws a point where a value has no neighbour", () => {
    expect(alone([null, 4, null, 1, 2, undefined, 0])).toEqual([1, 6]);
  });
});

describe("places of alerts", () => {
  it("leads to the jobs or the workflow that the alert names", () => {
    expect(placeOf({ code: "many_failures", subject: "portrait" })).toMatchObject({
      to: "/operate/jobs",
      search: { status: "failed", workflow: "portrait" },
    });
    expect(placeOf({ code: "no_live_worker", subject: "portrait (production, self_hosted)" })).toMatchObject({
      to: "/operate/workflows/$slug",
      params: { slug: "portrait" },
    });
    expect(placeOf({ code: "failing_runs", subject: "pool_1" })).toMatchObject({
      to: "/operate/jobs",
      search: { status: "failed" },
    });
    expect(placeOf({ code: "stopped_run", subject: "00000000-0000-0000-0000-000000000007" })).toMatchObject({
      to: "/operate/jobs",
      search: { status: "failed", run: "00000000-0000-0000-0000-000000000007" },
    });
    expect(placeOf({ code: "failing_provider", subject: "replicate" })).toMatchObject({ to: "/operate/providers" });
    expect(placeOf({ code: "mails_not_sent", subject: "mails" })).toMatchObject({
      to: "/operate/users",
      search: { view: "mails" },
    });
    expect(placeOf({ code: "alerts_not_sent", subject: "alerts" })).toMatchObject({ to: "/operate/health" });
    expect(placeOf({ code: "pool_unavailable", subject: "pool_1" })).toBeNull();
  });
});

describe("an entry of a list that scrolls", () => {
  it("is moved by as little as makes it visible, its start first", () => {
    expect(beyond(120, 150, 100, 200)).toBe(0);
    expect(beyond(90, 120, 100, 200)).toBe(-10);
    expect(beyond(180, 220, 100, 200)).toBe(20);
    expect(beyond(150, 400, 100, 200)).toBe(50);
  });
});
