import { describe, expect, it } from "vitest";
import { choose, counted } from "@/texts/plurals";

describe("counted", () => {
  it("writes the noun in the number of the count", () => {
    expect([0, 1, 2, 1200].map((count) => counted(count, "token"))).toEqual([
      "0 tokens",
      "1 token",
      "2 tokens",
      "1,200 tokens",
    ]);
    expect(["1", "1000+"].map((count) => counted(count, "job waits", "jobs wait"))).toEqual([
      "1 job waits",
      "1000+ jobs wait",
    ]);
    expect(choose(1, "leaf", "leaves")).toBe("leaf");
  });
});
