import { describe, expect, it } from "vitest";
import type { Schemas } from "@/api/types";
import {
  actionOf,
  type Candidate,
  dropped,
  EMPTY,
  judge,
  keyOf,
  type Pair,
  type PairQueue,
  progressOf,
  received,
  requeued,
  tallestOf,
  undo,
  voteOf,
} from "@/pages/run/compare/pair-queue";
import { columnsFor } from "@/pages/run/gallery/columns";
import { suggestedMore, tokensPerLeaf } from "@/pages/run/more";
import { appended, fingerprint } from "@/pages/run/news";
import { promptOf } from "@/pages/run/panel/lineage-text";
import type { Run, TreeNode } from "@/pages/run/queries";
import { comparedStep, readSearch } from "@/pages/run/search";
import { isFiltered, readSearch as readRuns } from "@/pages/runs/filters";
import { needsUser, percentOf, toneOf } from "@/parts/run/state";
import { steady } from "@/parts/steady-urls";

const candidate = (id: string) => ({ id, number: Number(id) }) as Candidate;
const pair = (one: number, other: number): [Candidate, Candidate] => [candidate(`${one}`), candidate(`${other}`)];
const found = (pairs: Pair[], judged = 0, total = 10) => ({ pairs: pairs.map((each) => [...each]), judged, total });
const shown = (queue: PairQueue) => queue.waiting.map(keyOf);

describe("the queue of pairs", () => {
  const queue = received(EMPTY, found([pair(1, 2), pair(3, 4), pair(1, 3)]), 0);

  it("shows the next pair at once, and takes the last vote back", () => {
    const judged = judge(judge(queue, "left"), "neither");
    expect(shown(judged)).toEqual(["1 3"]);
    expect(progressOf(judged)).toEqual({ judged: 2, total: 10 });
    const back = undo(judged);
    expect(shown(back)).toEqual(["3 4", "1 3"]);
    expect(progressOf(back).judged).toBe(1);
    expect(undo(EMPTY)).toEqual(EMPTY);
    expect(judge(EMPTY, "left")).toEqual(EMPTY);
  });

  it("leaves out pairs that wait or were judged here, whichever way round", () => {
    const next = received(judge(queue, "left"), found([pair(2, 1), pair(4, 3), pair(5, 6), pair(6, 5)], 4), 0);
    expect(shown(next)).toEqual(["3 4", "1 3", "5 6"]);
    expect(progressOf(next)).toEqual({ judged: 5, total: 10 });
  });

  it("counts a vote once, when the server counts it too", () => {
    expect(progressOf(received(judge(queue, "left"), found([], 5), 1)).judged).toBe(5);
  });

  it("keeps its count while a vote or an undo is on its way, which the server may have counted", () => {
    const judged = judge(queue, "left");
    expect(progressOf(received(judged, found([], 1), undefined)).judged).toBe(1);
    expect(progressOf(received(undo(judged), found([], 1), undefined)).judged).toBe(0);
  });

  it("brings back a pair whose vote was not saved, after the one that is looked at", () => {
    const judged = judge(queue, "left");
    expect(shown(requeued(judged, pair(1, 2)))).toEqual(["3 4", "1 2", "1 3"]);
    expect(requeued(queue, pair(1, 2))).toBe(queue);
    expect(shown(dropped(queue, pair(4, 3)))).toEqual(["1 2", "1 3"]);
    expect(progressOf(dropped(judged, pair(1, 2))).judged).toBe(0);
  });

  it("votes for the side that was chosen", () => {
    expect(voteOf({ pair: pair(1, 2), verdict: "left" })).toEqual({ winner_id: "1", loser_id: "2", verdict: "winner" });
    expect(voteOf({ pair: pair(1, 2), verdict: "right" })).toEqual({
      winner_id: "2",
      loser_id: "1",
      verdict: "winner",
    });
    expect(voteOf({ pair: pair(1, 2), verdict: "both" }).verdict).toBe("both");
    expect(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "u", "x"].map(actionOf)).toEqual([
      "left",
      "right",
      "both",
      "neither",
      "undo",
      undefined,
    ]);
  });
});

describe("the URL of runs", () => {
  it("keeps what it knows and forgets the rest", () => {
    expect(readSearch({ tab: "compare", step: "glow", candidate: "c", status: "rejected" })).toEqual({
      tab: "compare",
      step: "glow",
      candidate: "c",
      status: "rejected",
    });
    expect(readSearch({ tab: "tree", step: 7, candidate: "", status: "odd" })).toEqual({
      tab: undefined,
      step: undefined,
      candidate: undefined,
      status: undefined,
    });
    expect(readRuns({ status: "paused", pipeline: "trees" })).toEqual({ status: "paused", pipeline: "trees" });
    expect(isFiltered(readRuns({ status: "odd" }))).toBe(false);
  });

  it("compares the last step in which there are two", () => {
    const steps = ["a", "b", "c"].map((slug, place) => ({
      step: { slug } as Schemas["Step"],
      active: [4, 2, 1][place] ?? 0,
    }));
    expect(comparedStep(steps, undefined)).toBe("b");
    expect(comparedStep(steps, "a")).toBe("a");
    expect(comparedStep(steps, "gone")).toBe("b");
    expect(comparedStep([], undefined)).toBeUndefined();
  });
});

describe("states of runs", () => {
  it("differ for a run that works, one that waits for its user, and one that failed", () => {
    expect(toneOf({ status: "active", reason: null })).toBe("run");
    expect(toneOf({ status: "active", reason: "approval_needed" })).toBe("warn");
    expect(toneOf({ status: "paused", reason: "branches_failed" })).toBe("bad");
    expect(toneOf({ status: "completed", reason: "target_reached" })).toBe("ok");
    expect(needsUser({ status: "active", reason: "too_many_active_jobs" })).toBe(false);
    expect(percentOf({ leaves: 12, target_leaves: 10 })).toBe(100);
  });
});

describe("news of a run", () => {
  const node = (number: number, values: Partial<TreeNode> = {}) =>
    ({ id: `c${number}`, number, parent_id: null, child_count: 0, in_flight: 0, ...values }) as TreeNode;

  it("are put into the tree that is known", () => {
    const tree = appended(
      [node(1, { in_flight: 1 }), node(2)],
      [node(2), node(3, { parent_id: "c1" }), node(4, { parent_id: "c1", rejection: "surplus" })],
    );
    expect(tree.map(({ number }) => number)).toEqual([1, 2, 3, 4]);
    expect(tree[0]).toMatchObject({ child_count: 1, in_flight: 0 });
  });

  it("are noticed by what the run says", () => {
    const run = {
      status: "active",
      candidates: 3,
      spent: 3,
      budget: 9,
      updated_at: "t",
      steps: [{ active: 1, in_flight: 1, approved: true }],
    } as Run;
    expect(fingerprint(run)).toBe(fingerprint({ ...run }));
    expect(fingerprint({ ...run, steps: [{ ...run.steps[0], in_flight: 0 } as Run["steps"][number]] })).not.toBe(
      fingerprint(run),
    );
  });
});

describe("candidates", () => {
  it("were confirming for by a prompt, or by values", () => {
    expect(promptOf({ lineage: { prompt: "dunes" }, payload: null })).toBe("dunes");
    expect(promptOf({ lineage: {}, payload: { prompt: "hills" } })).toBe("hills");
    expect(promptOf({ lineage: { prompt: null, values: { strength: 0.4, deep: { a: 1 } } }, payload: null })).toBe(
      "strength 0.4",
    );
    expect(promptOf({ lineage: {}, payload: null })).toBeNull();
  });

  it("keep their URLs until these expire", () => {
    const file = (url: string, expires: string) => ({ id: "f", url, url_expires_at: expires }) as Schemas["File"];
    const kept = new Map();
    const at = Date.parse("2026-01-01T00:00:00Z");
    const first = { ...candidate("1"), file: file("a", "2026-01-01T00:10:00Z") };
    expect(steady(kept, first, at).file?.url).toBe("a");
    const second = { ...first, elo: 1016, file: file("b", "2026-01-01T00:20:00Z") };
    expect(steady(kept, second, at + 60_000)).toMatchObject({ elo: 1016, file: { url: "a" } });
    expect(steady(kept, second, at + 9.5 * 60_000).file?.url).toBe("b");
  });

  it("are two side by side on a phone", () => {
    expect([columnsFor(340), columnsFor(700), columnsFor(1200)]).toEqual([2, 3, 6]);
  });
});

it("a pair is as high as its taller image, and unknown sizes limit nothing", () => {
  const sized = (width: number | null, height: number | null) => ({ file: { width, height } }) as unknown as Candidate;
  expect(tallestOf([sized(300, 200), sized(100, 200)])).toBe(2);
  expect(tallestOf([sized(300, 200), sized(null, null)])).toBeUndefined();
});

describe("making more", () => {
  const run = { spent: 21, leaves: 4, target_leaves: 4, budget: 30 };
  it("offers as many again, with a budget that is enough", () => {
    expect(tokensPerLeaf(run)).toBe(6);
    expect(suggestedMore(run)).toEqual({ target: 8, budget: 45 });
    expect(suggestedMore({ ...run, budget: 500 })).toEqual({ target: 8, budget: 500 });
  });
  it("keeps the budget while nothing has finished", () => {
    expect(tokensPerLeaf({ ...run, leaves: 0 })).toBeNull();
    expect(suggestedMore({ ...run, leaves: 0 })).toEqual({ target: 8, budget: 30 });
  });
});
