import { describe, expect, it } from "vitest";
import type { Schemas } from "@/api/types";
import {
  draftOf,
  emptyStep,
  freshName,
  moved,
  newStepOf,
  problemsByStep,
  type StepWorkflow,
  startPayload,
  valueAt,
} from "@/pages/pipeline/draft";
import { slugOf } from "@/parts/slugs";

const paint: StepWorkflow = {
  workflow: "demo-paint",
  effect: "paint",
  effect_id: "e-1",
  name: "Paint",
  description: "",
  credits_cost: 1,
  is_available: true,
  preview: null,
  takes_image: false,
  needs_image: false,
  prompt_property: "prompt",
  seed_property: "seed",
  placeholders: [],
  properties: [],
};
const fix: StepWorkflow = {
  ...paint,
  workflow: "demo-fix",
  effect: "fix",
  effect_id: "e-2",
  takes_image: true,
  needs_image: true,
  prompt_property: null,
};

function saved(changes: Partial<Schemas["Step"]>): Schemas["Step"] {
  const needs = { needs_run_prompt: false, needs_parent_image_path: false, needs_run_variables: false };
  return {
    id: "1",
    position: 1,
    name: "Base",
    slug: "base",
    workflow: "demo-paint",
    effect_id: "e-1",
    payload: null,
    values: {},
    ...needs,
    max_children: 2,
    top_k: null,
    requires_approval: false,
    ...changes,
  };
}

describe("a step in the editor", () => {
  it("is sent as it was saved where nothing was changed", () => {
    const cases: [Partial<Schemas["Step"]>, number, StepWorkflow | null][] = [
      [{ needs_run_prompt: true }, 0, paint],
      [{ values: { prompt: "a fixed text" } }, 0, paint],
      [{ needs_run_prompt: true, needs_run_variables: true, values: { prompt: "{{prompt}}, {{style}}" } }, 0, paint],
      [{ needs_run_prompt: true, needs_run_variables: true }, 0, paint],
      [
        {
          workflow: "demo-fix",
          effect_id: "e-2",
          needs_parent_image_path: true,
          values: { strength: 0.4 },
          top_k: 2,
          requires_approval: true,
        },
        1,
        fix,
      ],
      [{ workflow: "gone", effect_id: "e-9", needs_run_prompt: true, needs_parent_image_path: true }, 1, null],
      [
        {
          workflow: "actor:media",
          effect_id: null,
          payload: { prompt: "{{prompt}}", image: "{{parent_image_path}}" },
          needs_run_prompt: true,
          needs_parent_image_path: true,
        },
        1,
        null,
      ],
    ];
    for (const [changes, index, info] of cases) {
      const step = saved(changes);
      const { id: _id, position: _position, effect_id: _effect, ...rest } = step;
      expect(newStepOf(draftOf(step, "k", [paint, fix]), index, info)).toEqual({
        ...rest,
        effect: info?.effect ?? null,
      });
    }
  });

  it("takes the run's prompt until another text is written", () => {
    const step = { ...emptyStep("k", "Base"), workflow: "demo-paint", effect: "paint" };
    expect(valueAt(step, paint, "prompt")).toBe("{{prompt}}");
    expect(newStepOf(step, 0, paint)).toMatchObject({ needs_run_prompt: true, values: {} });
    expect(newStepOf({ ...step, values: { prompt: "" } }, 0, paint)).toMatchObject({
      needs_run_prompt: false,
      values: {},
    });
    expect(newStepOf({ ...step, values: { prompt: "{{prompt}} in {{style}}" } }, 0, paint)).toMatchObject({
      needs_run_prompt: true,
      needs_run_variables: true,
    });
    expect(newStepOf({ ...step, values: { prompt: "{{prompt}}" } }, 0, paint)).toMatchObject({
      needs_run_prompt: true,
      values: {},
    });
  });

  it("needs the parent's image where its workflow takes one and it is not the first", () => {
    const step = { ...emptyStep("k", "Fix"), workflow: "demo-fix", effect: "fix" };
    expect(newStepOf(step, 0, fix).needs_parent_image_path).toBe(false);
    expect(newStepOf(step, 1, fix).needs_parent_image_path).toBe(true);
  });

  it("of an actor begins with prompt, seed and the parent's image", () => {
    const schema = {
      type: "object",
      properties: {
        prompt: { type: "string" },
        params: {
          type: "object",
          properties: {
            image_url: { type: "string" },
            seed: { type: "integer", default: 0 },
            strength: { type: "number", default: 0.5 },
          },
        },
      },
    };
    expect(startPayload(schema, { provider: "lightbox" }, true)).toEqual({
      provider: "lightbox",
      prompt: "{{prompt}}",
      params: { image_url: "{{parent_image_path}}", seed: "{{seed}}", strength: 0.5 },
    });
    expect(startPayload(schema, {}, false)).toEqual({
      prompt: "{{prompt}}",
      params: { seed: "{{seed}}", strength: 0.5 },
    });
  });
});

it("moves an item to another place", () => {
  expect(moved(["a", "b", "c"], 0, 2)).toEqual(["b", "c", "a"]);
  expect(moved(["a", "b", "c"], 2, 0)).toEqual(["c", "a", "b"]);
});

it("finds names and slugs", () => {
  expect(freshName("Glow", ["Glow", "Glow 2"])).toBe("Glow 3");
  expect(slugOf("Für Elise! ")).toBe("fur-elise");
  expect(slugOf("日本")).toBe("");
});

it("brings the reasons of the server to their steps", () => {
  const errors = [
    { field: "steps.1.values.strength", reason: "Too much." },
    { field: "steps.0.workflow", reason: "None." },
    { field: "steps.9.name", reason: "?" },
    { field: "slug", reason: "Taken." },
  ];
  expect(problemsByStep(errors, 2)).toEqual([{ workflow: "None." }, { "values.strength": "Too much." }]);
});
