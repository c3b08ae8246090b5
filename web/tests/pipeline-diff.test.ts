import { describe, expect, it } from "vitest";
import type { Schemas } from "@/api/types";
import { changesBetween, wordDiff } from "@/pages/pipeline/diff";

function step(position: number, name: string, changes: Partial<Schemas["Step"]> = {}): Schemas["Step"] {
  const needs = { needs_run_prompt: false, needs_parent_image_path: false, needs_run_variables: false };
  return {
    id: `${position}`,
    position,
    name,
    slug: name.toLowerCase(),
    workflow: "paint",
    effect_id: "e",
    payload: null,
    values: {},
    ...needs,
    max_children: 2,
    top_k: null,
    requires_approval: false,
    ...changes,
  };
}

describe("what changed between two versions", () => {
  it("is nothing where the steps are the same, whatever their ids", () => {
    expect(changesBetween([step(1, "Base")], [step(1, "Base", { id: "other" })])).toEqual([]);
  });

  it("names each field with both values", () => {
    const before = [step(1, "Base", { values: { strength: 0.4, mood: "dawn" } })];
    const after = [step(1, "Base", { values: { strength: 0.6 }, max_children: 3, requires_approval: true })];
    expect(changesBetween(before, after)).toEqual([
      {
        is: "changed",
        name: "Base",
        position: 1,
        movedFrom: null,
        fields: [
          { field: "max_children", before: 2, after: 3 },
          { field: "requires_approval", before: false, after: true },
          { field: "values.strength", before: 0.4, after: 0.6 },
          { field: "values.mood", before: "dawn", after: undefined },
        ],
      },
    ]);
  });

  it("looks into payloads", () => {
    const before = [step(1, "Base", { payload: { prompt: "a", params: { seed: 1, sizes: [1, 2] } } })];
    const after = [step(1, "Base", { payload: { prompt: "a", params: { seed: 2, sizes: [1, 2] } } })];
    const [change] = changesBetween(before, after);
    expect(change).toMatchObject({ fields: [{ field: "payload.params.seed", before: 1, after: 2 }] });
  });

  it("distinguishes a step that moved from one that slid", () => {
    const before = [step(1, "Base"), step(2, "Fix"), step(3, "Glow")];
    const added = [step(1, "Sketch"), step(2, "Base"), step(3, "Fix"), step(4, "Glow")];
    expect(changesBetween(before, added)).toEqual([{ is: "added", name: "Sketch", position: 1 }]);
    const swapped = [step(1, "Base"), step(2, "Glow"), step(3, "Fix")];
    expect(changesBetween(before, swapped).map((each) => [each.name, each.is === "changed" && each.movedFrom])).toEqual(
      [
        ["Glow", 3],
        ["Fix", 2],
      ],
    );
    expect(changesBetween(before, [step(1, "Base"), step(2, "Glow")])).toEqual([
      { is: "removed", name: "Fix", position: 2 },
    ]);
  });

  it("knows a step again that got another name and slug", () => {
    const [change] = changesBetween([step(1, "Base")], [step(1, "Ground")]);
    expect(change).toMatchObject({ is: "changed", fields: [{ field: "name", before: "Base", after: "Ground" }] });
    expect(changesBetween([step(1, "Base")], [step(1, "Ground", { workflow: "glow" })]).map((each) => each.is)).toEqual(
      ["added", "removed"],
    );
  });
});

it("compares two texts word by word, placeholders as one word", () => {
  expect(wordDiff("{{prompt}}, in oil", "{{prompt}}, in {{style}}")).toEqual([
    { text: "{{prompt}}, in ", is: "same" },
    { text: "oil", is: "removed" },
    { text: "{{style}}", is: "added" },
  ]);
  expect(wordDiff("", "new")).toEqual([{ text: "new", is: "added" }]);
});
