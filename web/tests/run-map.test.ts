import { describe, expect, it } from "vitest";
import { fit, zoomAt } from "@/pages/run/tree/camera";
import { frameOf, MAP, mapOf, pointOf } from "@/pages/run/tree/map";

const WINDOW = { width: 1000, height: 500 };

describe("the map of a tree", () => {
  it.each([
    { width: 40_000, height: 900 },
    { width: 300, height: 20_000 },
    { width: 0, height: 0 },
  ])("has the whole tree inside of it: $width × $height", (tree) => {
    const map = mapOf(tree);
    for (const [value, most] of [
      [map.left, MAP.width],
      [map.left + tree.width * map.scale, MAP.width],
      [map.top, MAP.height],
      [map.top + tree.height * map.scale, MAP.height],
    ] as const) {
      expect(value).toBeGreaterThanOrEqual(0);
      expect(value).toBeLessThanOrEqual(most);
    }
  });
  it("is not needed while the window shows the whole tree", () => {
    const tree = { width: 40_000, height: 900 };
    const whole = fit(tree, WINDOW);
    expect(frameOf(tree, mapOf(tree), whole, WINDOW)).toBeNull();
    expect(frameOf(tree, mapOf(tree), zoomAt(whole, 500, 250, 2, 0.001), WINDOW)).not.toBeNull();
  });
  it("frames what the window shows, and leads to the point that is pressed", () => {
    const tree = { width: 1620, height: 1000 };
    const map = mapOf(tree);
    const frame = frameOf(tree, map, { x: 810, y: 500, scale: 2 }, WINDOW);
    expect(frame?.width).toBeCloseTo(500 * map.scale);
    expect(frame?.height).toBeCloseTo(250 * map.scale);
    const corner = pointOf(map, frame?.x ?? 0, frame?.y ?? 0);
    expect(corner.x).toBeCloseTo(810);
    expect(corner.y).toBeCloseTo(500);
  });
  it("frames at least a dot, also of a window beside the tree", () => {
    const tree = { width: 1_000_000, height: 500_000 };
    const map = mapOf(tree);
    for (const camera of [
      { x: 500_000, y: 0, scale: 2 },
      { x: 2_000_000, y: 900_000, scale: 2 },
      { x: -90_000, y: -90_000, scale: 2 },
    ]) {
      const frame = frameOf(tree, map, camera, WINDOW);
      expect(frame).toMatchObject({ width: 4, height: 4 });
      expect(frame?.x).toBeGreaterThanOrEqual(0);
      expect(frame?.x).toBeLessThanOrEqual(MAP.width - 2);
    }
  });
});
