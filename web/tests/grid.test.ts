import { expect, test } from "vitest";
import type { Effect } from "@/api/types";
import { bodyOf, countOf, gridProblems, listedValues, type Mode } from "@/pages/effect/grid/grid";

const limits = { min: 0, max: 100, integer: true };
const effect = {
  slug: "glow",
  properties: [
    { key: "prompt", label: "", type: "text", required: true, limits: { max_length: 12 } },
    { key: "seed", label: "", type: "number", required: false, limits },
    { key: "style", label: "", type: "choice", required: false, limits: { choices: ["soft", "hard"] } },
    { key: "mask", label: "", type: "image", required: false, limits: {} },
  ],
} as unknown as Effect;

test("lists are read by lines, commas and ranges", () => {
  const lists = { prompt: "a dune\n\n  an island \n", seed: "1, 5;10..12 7..6", style: ["hard"] };
  expect(listedValues(effect, lists)).toEqual({
    prompt: ["a dune", "an island"],
    seed: [1, 5, 10, 11, 12, 7, 6],
    style: ["hard"],
  });
  expect(listedValues(effect, { seed: "1..99999999" })).toEqual({ seed: ["1..99999999"] });
});

test("the number of jobs is a product, or the longest list", () => {
  const listed = listedValues(effect, { prompt: "a\nb", seed: "1..3" });
  expect(countOf(listed, 4, "cartesian")).toBe(24);
  expect(countOf(listed, 0, "zipped")).toBe(3);
  expect(countOf({}, 0, "cartesian")).toBe(1);
});

test.each([
  [{ prompt: "a", seed: "1, x" }, "cartesian", { seed: "“x” is not a number." }],
  [{ prompt: "a\nb", seed: "1..3" }, "zipped", { prompt: expect.stringContaining("2 values") }],
  [{ prompt: "a\nb", seed: "1..3" }, "cartesian", {}],
  [{ prompt: "a", seed: "1..3" }, "zipped", {}],
  [
    { prompt: "a prompt that is too long", seed: "400" },
    "cartesian",
    { prompt: expect.anything(), seed: expect.anything() },
  ],
  [{}, "cartesian", { prompt: expect.anything() }],
] as const)("a wrong list has a sentence: %j %s", (lists, mode, problems) => {
  const listed = listedValues(effect, lists);
  expect(gridProblems(effect, listed, 0, mode as Mode)).toEqual(problems);
});

test("a list of one value is the same for all jobs", () => {
  const listed = listedValues(effect, { prompt: "a dune", seed: "1..3" });
  expect(bodyOf(effect, listed, "zipped", ["f"], {})).toEqual({
    effect_id: "glow",
    input_payload: { prompt: "a dune" },
    grid: { mode: "zipped", values: { seed: [1, 2, 3] }, input_file_ids: ["f", "f", "f"] },
  });
  expect(bodyOf(effect, listed, "cartesian", ["f", "g"], {}).grid.input_file_ids).toEqual(["f", "g"]);
  const one = listedValues(effect, { prompt: "a dune", seed: "7" });
  expect(bodyOf(effect, one, "cartesian", [], {})).toEqual({
    effect_id: "glow",
    input_payload: { seed: 7 },
    grid: { mode: "cartesian", values: { prompt: ["a dune"] } },
  });
});
