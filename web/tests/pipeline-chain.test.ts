import { describe, expect, it } from "vitest";
import { countsPerBase, drawChain, expectedCounts, MAX_DOTS } from "@/parts/pipeline/chain";

const links = (...children: number[]) => children.map((max_children) => ({ max_children }));

describe("the chain of a pipeline", () => {
  it("multiplies from step to step", () => {
    expect(countsPerBase(links(4, 4, 9))).toEqual([1, 4, 16]);
    expect(countsPerBase([])).toEqual([]);
    expect(expectedCounts(links(4, 4, 9), 16, "finish_first")).toEqual([1, 4, 16]);
    expect(expectedCounts(links(2, 1, 5), 3, "finish_first")).toEqual([2, 4, 4]);
    expect(expectedCounts(links(5), 3, "finish_first")).toEqual([3]);
    expect(expectedCounts([], 3, "finish_first")).toEqual([]);
  });

  it("has as many bases as leaves are wanted where a step is filled before the next", () => {
    expect(expectedCounts(links(2, 5), 4, "breadth_first")).toEqual([4, 8]);
    expect(expectedCounts([{ max_children: 2, top_k: 3 }, { max_children: 5 }], 8, "breadth_first")).toEqual([8, 6]);
    // Depth-first, no step waits for its best.
    expect(expectedCounts([{ max_children: 2, top_k: 1 }, { max_children: 5 }], 4, "finish_first")).toEqual([2, 4]);
  });

  it("is drawn with a line to every child, and not more dots than can be seen", () => {
    const drawing = drawChain([1, 4, 16], 100, 90);
    expect(drawing.columns.map((dots) => dots.length)).toEqual([1, 4, MAX_DOTS]);
    expect(drawing.lines).toHaveLength(4 + MAX_DOTS);
    expect(drawing.columns[0]![0]).toEqual({ x: 50, y: 45, isLast: false });
    expect(drawing.columns[2]!.every((dot) => dot.isLast)).toBe(true);
    expect(drawing.width).toBe(300);
  });
});
