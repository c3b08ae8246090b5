import { expect, test } from "vitest";
import { rankOf } from "@/frame/palette-rank";

test("every word must be in an entry, and its beginning counts most", () => {
  expect(rankOf("Film noir noir", "")).toBe(1);
  expect(rankOf("Film noir noir", "FILM no")).toBe(1);
  expect(rankOf("Film noir noir", "noir")).toBe(0.8);
  expect(rankOf("Moonlight", "light")).toBe(0.5);
  expect(rankOf("Film noir noir", "film blue")).toBe(0);
});

test("scattered letters are no match, and what the server found always is", () => {
  expect(rankOf("Slow painting with a long name", "lighth")).toBe(0);
  expect(rankOf("job 01a1e571", "lighth", ["lighth"])).toBeGreaterThan(0);
  expect(rankOf("job 01a1e571", "( ) [", ["( ) ["])).toBeGreaterThan(0);
});
