import { expect, test } from "vitest";
import { layoutOf } from "@/pages/batch/layout";

const of = (keys: string[], ...rows: string[][]) => ({
  keys,
  items: rows.map((row, index) => ({
    item: index + 1,
    values: Object.fromEntries(keys.map((key, at) => [key, row[at]!])),
  })),
});
const none = new Map<number, string>();

test("two lists are rows and columns", () => {
  const layout = layoutOf(
    of(["prompt", "strength"], ["a cat", "1"], ["a cat", "2"], ["a dog", "1"], ["a dog", "2"]),
    none,
  );
  expect(layout?.rows.map(({ text }) => text)).toEqual(["a cat", "a dog"]);
  expect(layout?.columns.map(({ text }) => text)).toEqual(["Strength 1", "Strength 2"]);
  expect(layout?.items).toEqual([
    [1, 2],
    [3, 4],
  ]);
});

test("files are rows, and drawn seeds are no dimension", () => {
  const found = of(["seed", "strength"], ["7", "1"], ["8", "2"], ["9", "1"], ["10", "2"]);
  const names = new Map([1, 2, 3, 4].map((item) => [item, item < 3 ? "a.png" : "b.png"]));
  const layout = layoutOf(found, names);
  expect(layout?.rows.map(({ text }) => text)).toEqual(["a.png", "b.png"]);
  expect(layout?.columns.map(({ text }) => text)).toEqual(["Strength 1", "Strength 2"]);
});

test("three lists share the rows", () => {
  const values = ["1", "2"].flatMap((a) => ["x", "y"].flatMap((b) => ["p", "q"].map((c) => [a, b, c])));
  const layout = layoutOf(of(["strength", "style", "prompt"], ...values), none);
  expect(layout?.rows.map(({ text }) => text)).toEqual([
    "Strength 1, x",
    "Strength 1, y",
    "Strength 2, x",
    "Strength 2, y",
  ]);
  expect(layout?.columns).toHaveLength(2);
});

test("one list, rows of several lists, and a batch with a deleted job are no grid", () => {
  expect(layoutOf(of(["prompt"], ["a"], ["b"]), none)).toBeNull();
  expect(layoutOf(of(["prompt", "strength"], ["a", "1"], ["b", "2"]), none)).toBeNull();
  expect(layoutOf(of(["prompt", "strength"], ["a", "1"], ["a", "2"], ["b", "1"]), none)).toBeNull();
});
