import { describe, expect, it } from "vitest";
import { type BulkAction, type OperatedJob, percentOf, scopeOfRows, scopeOfTotals } from "@/pages/operate/jobs/actions";
import { rangeWords, searchOf, wordsOf } from "@/pages/operate/jobs/filter-words";
import { countsOf, isFiltered, readSearch, startOf, type Totals, toFilter } from "@/parts/job/all-jobs-filters";

const TENANT = "0197b1c2-1234-7abc-8def-001122334455";
const totals = (jobs: Record<string, number>): Totals => ({
  jobs: Object.values(jobs).reduce((sum, count) => sum + count, 0),
  tokens: 0,
  by_status: Object.fromEntries(
    Object.entries(jobs).map(([status, count]) => [status, { jobs: count, tokens: 2 * count }]),
  ) as Totals["by_status"],
  is_partial: false,
});

describe("the filters in the URL", () => {
  it("leave out what makes no sense", () => {
    const raw = {
      view: "errors",
      q: " out of memory ",
      status: "failed",
      tenant: TENANT,
      user: "x",
      workflow: "actor:copy",
      worker: "gpu-1",
      error: "0123456789abcdef",
      time: "century",
    };
    expect(readSearch(raw)).toEqual({
      view: "errors",
      q: "out of memory",
      status: "failed",
      tenant: TENANT,
      workflow: "actor:copy",
      worker: "gpu-1",
      error: "0123456789abcdef",
    });
    expect(readSearch({ view: "jobs", status: "all", q: "" })).toEqual({});
    expect(readSearch({ error: 1234567890123456 })).toEqual({ error: "1234567890123456" });
  });
  it("are the filter of the API, without what is not chosen", () => {
    expect(
      toFilter({
        status: "failed",
        from: "2026-01-01T00:00:00.000Z",
        until: "2026-01-01T01:00:00.000Z",
        tenant: TENANT,
        view: "errors",
      }),
    ).toEqual({
      status: ["failed", "expired"],
      tenant_id: TENANT,
      created_from: "2026-01-01T00:00:00.000Z",
      created_to: "2026-01-01T01:00:00.000Z",
    });
    expect(toFilter({})).toEqual({});
  });
  it("have absolute times, at whole minutes", () => {
    expect(startOf("hour", new Date("2026-01-01T01:00:42Z"))).toBe("2026-01-01T00:00:00.000Z");
    expect(readSearch({ from: "2026-01-01T01:00+01:00", until: "2026-01-02" })).toEqual({
      from: "2026-01-01T00:00:00.000Z",
      until: "2026-01-02T00:00:00.000Z",
    });
    expect(readSearch({ from: "5", until: "2026-13-45T99:00Z" })).toEqual({});
  });
  it("say their times in words", () => {
    expect(rangeWords(undefined, undefined)).toBeNull();
    expect(rangeWords("2026-01-01T00:00:00.000Z", undefined)).toMatch(/^Since /);
    expect(rangeWords(undefined, "2026-01-01T00:00:00.000Z")).toMatch(/^Before /);
    expect(rangeWords("2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z")).toContain(" – ");
  });
  it("do not count the view as a filter", () => {
    expect(isFiltered({ view: "errors" })).toBe(false);
    expect(isFiltered({ worker: "gpu-1" })).toBe(true);
  });
  it("count", () => {
    expect(countsOf(totals({ queued: 2, processing: 1, completed: 5, expired: 1, failed: 3 }))).toEqual({
      all: 12,
      active: 3,
      queued: 2,
      running: 1,
      completed: 5,
      failed: 4,
      canceled: 0,
    });
  });
});

describe("a bulk action", () => {
  const jobs = (["failed", "expired", "queued", "processing", "completed"] as const).map(
    (status) => ({ status, cost: 5 }) as OperatedJob,
  );
  it("changes only the jobs whose status fits, and says what they cost", () => {
    expect(scopeOfRows("retry", jobs)).toEqual({ jobs: 2, tokens: 10, isPartial: false });
    expect(scopeOfRows("cancel", jobs)).toEqual({ jobs: 2, tokens: 10, isPartial: false });
    expect(scopeOfRows("set_priority", jobs)).toEqual({ jobs: 1, tokens: 5, isPartial: false });
    expect(scopeOfTotals("retry", { ...totals({ failed: 30, completed: 7 }), is_partial: true })).toEqual({
      jobs: 30,
      tokens: 60,
      isPartial: true,
    });
  });
  it("has no percentage while its jobs are being found", () => {
    const action = { state: "running", is_collected: false, total: 3, done: 0, refused: 0 } as BulkAction;
    expect(percentOf(action)).toBeNull();
    expect(percentOf({ ...action, is_collected: true, total: 8, done: 3, refused: 1 })).toBe(50);
    expect(percentOf({ ...action, state: "completed", is_collected: true, total: 0 })).toBe(100);
  });
  it("says its filter in words, and leads to the list with the same filter", () => {
    expect(wordsOf({ status: ["failed", "expired"], workflow: ["upscale"] })).toBe("Failed · Expired · upscale");
    expect(searchOf({ status: ["pending", "queued"] })).toMatchObject({ status: "queued" });
    expect(searchOf({ status: ["pending", "queued", "processing"] })).toMatchObject({ status: "active" });
    expect(searchOf({ status: ["failed", "expired"], workflow: ["upscale"] })).toMatchObject({
      status: "failed",
      workflow: "upscale",
    });
    expect(searchOf({ created_from: "2026-01-01T00:00:00Z", created_to: "2026-01-02T00:00:00Z" })).toMatchObject({
      from: "2026-01-01T00:00:00Z",
      until: "2026-01-02T00:00:00Z",
    });
    expect(wordsOf({ job_id: ["a", "b"] })).toBe("2 selected jobs");
    expect(searchOf({ job_id: ["a", "b"] })).toBeNull();
    expect(wordsOf({})).toBe("All jobs");
  });
});
