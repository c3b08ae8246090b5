import { describe, expect, it } from "vitest";
import { countsOf, readSearch, toQuery } from "@/parts/job/filters";

describe("the filters in the address", () => {
  it("leave out what makes no sense", () => {
    expect(
      readSearch({
        q: "  rain ",
        status: "active",
        effect: "<script>",
        kind: "task",
        time: "century",
        run: "x",
        other: 1,
      }),
    ).toEqual({ q: "rain", status: "active", kind: "task" });
    expect(readSearch({ q: 2026, status: "all" })).toEqual({ q: "2026" });
    expect(readSearch({ q: "" })).toEqual({});
  });
  it("become a query", () => {
    const query = toQuery({ status: "failed", time: "hour", effect: "noir" }, new Date("2026-01-01T01:00:00Z"));
    expect(query).toMatchObject({
      status: ["failed", "expired"],
      effect: ["noir"],
      created_from: "2026-01-01T00:00:00.000Z",
    });
  });
  it("count", () => {
    expect(countsOf({ pending: 1, queued: 2, completed: 5, expired: 1 })).toEqual({
      all: 9,
      active: 3,
      completed: 5,
      failed: 1,
      canceled: 0,
    });
  });
});
