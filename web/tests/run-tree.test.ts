import { describe, expect, it } from "vitest";
import { fit, MAX_SCALE, pan, reveal, shownBy, zoomAt } from "@/pages/run/tree/camera";
import { bandCount, COLUMN, layOut, NODE_HEIGHT, NODE_WIDTH, ROW, type TreeNode } from "@/pages/run/tree/layout";
import { BUCKETS, bucketOf, MIDDLE, mix, palette, shapeOf, spreadOf, winnersOf } from "@/pages/run/tree/looks";
import { neighbour } from "@/pages/run/tree/neighbours";
import { shortened } from "@/pages/run/tree/shortened";
import { Grid } from "@/pages/run/tree/visible";

function node(number: number, parent: number | null, position: number, values: Partial<TreeNode> = {}): TreeNode {
  return {
    id: `c${number}`,
    number,
    parent_id: parent === null ? null : `c${parent}`,
    step_id: `s${position}`,
    position,
    status: "active",
    elo: 1000,
    votes: 0,
    child_count: 0,
    in_flight: 0,
    max_children: 5,
    failure_count: 0,
    ...values,
  };
}

/** Bases with five children each, and these with four. */
function forest(bases: number): TreeNode[] {
  const nodes: TreeNode[] = [];
  const add = (parent: number | null, position: number) => {
    const number = nodes.length + 1;
    nodes.push(node(number, parent, position));
    return number;
  };
  for (let base = 0; base < bases; base += 1) {
    const root = add(null, 1);
    for (let child = 0; child < 5; child += 1) {
      const middle = add(root, 2);
      for (let leaf = 0; leaf < 4; leaf += 1) add(middle, 3);
    }
  }
  return nodes;
}

describe("the layout of a tree", () => {
  it("puts steps in columns, children in rows and a parent beside the middle of its children", () => {
    const { placed } = layOut([node(1, null, 1), node(2, 1, 2), node(3, 1, 2)], 2);
    expect(placed.map(({ x }) => x)).toEqual([NODE_WIDTH / 2, COLUMN + NODE_WIDTH / 2, COLUMN + NODE_WIDTH / 2]);
    expect((placed[2]?.y ?? 0) - (placed[1]?.y ?? 0)).toBe(ROW);
    expect(placed[0]?.y).toBe(((placed[1]?.y ?? 0) + (placed[2]?.y ?? 0)) / 2);
  });

  it("draws nothing on top of something else, also in a tree of 5,000", () => {
    const { placed, width, height } = layOut(forest(192), 3);
    expect(placed).toHaveLength(4992);
    const places = new Set(placed.map(({ x, y }) => `${x} ${Math.round(y)}`));
    expect(places.size).toBe(placed.length);
    expect(placed.every(({ x, y }) => x >= 0 && x <= width && y >= 0 && y <= height)).toBe(true);
    // About as wide as a screen, not a strip.
    expect(width / height).toBeGreaterThan(0.5);
    expect(width / height).toBeLessThan(4);
  });

  it("keeps the place of what is being made for what it becomes", () => {
    const before = layOut([node(1, null, 1, { in_flight: 1 }), node(2, 1, 2)], 2, 1);
    expect(before.placed.map((one) => one.node?.number ?? null)).toEqual([1, 2, null, null]);
    const after = layOut([node(1, null, 1), node(2, 1, 2), node(3, 1, 2)], 2);
    expect(after.placed[2]).toMatchObject({ x: before.placed[2]?.x, y: before.placed[2]?.y });
  });

  it("shows a candidate whose parent is not there as a base", () => {
    expect(layOut([node(7, 3, 2)], 2).placed[0]?.parent).toBe(-1);
    expect(layOut([], 2).placed).toEqual([]);
  });

  it("has a power of two of bands, and no more than bases", () => {
    expect(bandCount(100_000, 500, 200)).toBe(16);
    expect(bandCount(100_000, 500, 3)).toBe(3);
    expect(bandCount(100, 500, 10)).toBe(1);
  });
});

describe("what a window shows", () => {
  const layout = layOut(forest(192), 3);
  const grid = new Grid(layout);

  it("is all nodes within it, and few others", () => {
    const rect = { left: 900, top: 2000, right: 1700, bottom: 2600 };
    const inside = layout.placed.flatMap(({ x, y }, place) =>
      x + NODE_WIDTH / 2 > rect.left &&
      x - NODE_WIDTH / 2 < rect.right &&
      y + NODE_HEIGHT / 2 > rect.top &&
      y - NODE_HEIGHT / 2 < rect.bottom
        ? [place]
        : [],
    );
    const { nodes, lines } = grid.visible(rect);
    expect(inside.every((place) => nodes.includes(place))).toBe(true);
    expect(nodes.length).toBeLessThan(layout.placed.length / 5);
    expect(new Set(nodes).size).toBe(nodes.length);
    expect(lines.length).toBeLessThan(layout.placed.length / 5);
  });

  it("is everything from far away, and nothing is missed at the edges", () => {
    expect(grid.visible({ left: -1e6, top: -1e6, right: 1e6, bottom: 1e6 }).nodes).toHaveLength(layout.placed.length);
  });

  it("finds the node at a point", () => {
    const { x = 0, y = 0 } = layout.placed[700] ?? {};
    expect(grid.at(x + 20, y - 10, 0)).toBe(700);
    expect(grid.at(-500, -500, 4)).toBeNull();
  });
});

describe("the camera", () => {
  const window = { width: 1000, height: 600 };

  it("fits everything and never makes it larger than life", () => {
    const camera = fit({ width: 20_000, height: 3000 }, window);
    const shown = shownBy(camera, window);
    expect(shown.left).toBeLessThanOrEqual(0);
    expect(shown.right).toBeGreaterThanOrEqual(20_000);
    expect(fit({ width: 100, height: 100 }, window).scale).toBe(1);
  });

  it("zooms around the pointer within its limits", () => {
    const camera = { x: 100, y: 50, scale: 0.5 };
    const closer = zoomAt(camera, 200, 100, 2, 0.01);
    expect(closer.x + 200 / closer.scale).toBeCloseTo(camera.x + 200 / camera.scale);
    expect(zoomAt(camera, 0, 0, 1e9, 0.01).scale).toBe(MAX_SCALE);
    expect(zoomAt(camera, 0, 0, 1e-9, 0.01).scale).toBe(0.01);
  });

  it("moves with the pointer, and only as far as it must", () => {
    expect(pan({ x: 0, y: 0, scale: 2 }, 10, -4)).toEqual({ x: -5, y: 2, scale: 2 });
    const still = { x: 0, y: 0, scale: 1 };
    expect(reveal(still, 500, 300, window)).toEqual(still);
    expect(reveal(still, 2000, 300, window)).toEqual({ x: 1080, y: 0, scale: 1 });
  });
});

describe("looks", () => {
  it("says the state by shape", () => {
    expect(shapeOf(null, false)).toBe("making");
    expect(shapeOf(node(1, null, 1), false)).toBe("active");
    expect(shapeOf(node(1, null, 1), true)).toBe("winner");
    expect(shapeOf(node(1, null, 1, { status: "rejected", rejection: "killed" }), true)).toBe("rejected");
    expect(shapeOf(node(1, null, 1, { status: "rejected", rejection: "surplus" }), false)).toBe("surplus");
    expect(shapeOf(node(1, null, 1, { failure_count: 3 }), false)).toBe("failing");
    expect(shapeOf(node(1, null, 1, { failure_count: 1, child_count: 1 }), false)).toBe("active");
  });

  it("colours by rating, the middle for what was not compared", () => {
    expect(spreadOf([{ elo: 1016 }, { elo: 984 }])).toBe(32);
    expect(spreadOf([{ elo: 1100 }])).toBe(100);
    expect(bucketOf(1000, 100)).toBe(MIDDLE);
    expect([bucketOf(900, 100), bucketOf(1100, 100), bucketOf(5000, 100)]).toEqual([0, BUCKETS - 1, BUCKETS - 1]);
    const colours = palette("#000000", "#808080", "#ffffff");
    expect([colours[0], colours[MIDDLE], colours[BUCKETS - 1]]).toEqual(["#000000", "#808080", "#ffffff"]);
    expect(mix("#000000", "#ff8000", 0.5)).toBe("#804000");
  });

  it("knows the best of the last step that were compared", () => {
    const nodes = [
      node(1, null, 1, { elo: 2000, votes: 9 }),
      node(2, 1, 2, { elo: 1010, votes: 1 }),
      node(3, 1, 2, { elo: 1010, votes: 1 }),
      node(4, 1, 2, { elo: 1500 }),
      node(5, 1, 2, { elo: 1400, votes: 2, status: "rejected" }),
    ];
    expect([...winnersOf(nodes, 2, 1)]).toEqual(["c2"]);
  });
});

describe("arrow keys", () => {
  const layout = layOut([node(1, null, 1), node(2, 1, 2), node(3, 1, 2), node(4, null, 1)], 2);

  it("lead to parent, child and the nearest of the same step", () => {
    expect(neighbour(layout, undefined, "down")).toBe("c1");
    expect(neighbour(layout, "c1", "right")).toBe("c2");
    expect(neighbour(layout, "c2", "down")).toBe("c3");
    expect(neighbour(layout, "c3", "up")).toBe("c2");
    expect(neighbour(layout, "c3", "left")).toBe("c1");
    expect(neighbour(layout, "c1", "down")).toBe("c4");
    expect(neighbour(layout, "c4", "right")).toBeNull();
  });
});

it("a name that has no room for all of it ends in an ellipsis", () => {
  const width = (text: string) => text.length;
  expect(shortened("Relight", width, 7)).toBe("Relight");
  expect(shortened("Erster Entwurf", width, 8)).toBe("Erster…");
  expect(shortened("Entwurf", width, 1)).toBe("…");
});
