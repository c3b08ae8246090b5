import { expect, test } from "vitest";
import { ApiError } from "@/api/problems";
import { changesRequirements, isHash, namesIn, reasonBelow, shownText } from "@/pages/operate/workflow/requirements";
import { diffOf } from "@/parts/workflow/diff";
import type { Draft } from "@/parts/workflow/draft";
import { lackText } from "@/parts/workflow/lack";

test("names are read one per line, each once", () => {
  expect(namesIn(" KSampler \n\nVAEDecode\nKSampler\n")).toEqual(["KSampler", "VAEDecode"]);
});

test("what is typed stays as long as it means the list, so that a new line can be started", () => {
  expect(shownText("KSampler\n", ["KSampler"])).toBe("KSampler\n");
  // The changes were discarded.
  expect(shownText("KSampler\n", ["VAEDecode", "Other"])).toBe("VAEDecode\nOther");
});

test("a hash has 64 digits", () => {
  expect(isHash("a".repeat(64))).toBe(true);
  expect(isHash("a".repeat(63))).toBe(false);
  expect(isHash("g".repeat(64))).toBe(false);
});

test("a reason is found at the list and at each of its lines", () => {
  const refused = (field: string) =>
    new ApiError({
      type: "about:blank",
      title: "Refused",
      status: 422,
      code: "invalid_request",
      errors: [{ field, reason: "Too long." }],
    });
  expect(reasonBelow(refused("requirements.ignore.3"), "requirements.ignore")).toBe("Too long.");
  expect(reasonBelow(refused("requirements.ignored"), "requirements.ignore")).toBeUndefined();
});

test("what is missing is named by its kind", () => {
  expect(lackText({ kind: "model_hash", name: "sd.safetensors" })).toBe("model sd.safetensors with the required hash");
});

test("unsaved changes of requirements, nodes and properties are not compared with workers, others do not matter", () => {
  const saved = {
    name: "Imagine",
    graph: { "1": { class_type: "KSampler", inputs: { seed: 1 } } },
    properties: [],
    requirements: { from_graph: true },
  } as unknown as Draft;
  const changes = (values: object) => changesRequirements(diffOf(saved, { ...saved, ...values } as Draft));
  expect(changes({})).toBe(false);
  expect(changes({ name: "Another name" })).toBe(false);
  expect(changes({ requirements: { from_graph: true, node_classes: ["Upscale"] } })).toBe(true);
  expect(changes({ graph: { "1": { class_type: "KSamplerAdvanced", inputs: { seed: 1 } } } })).toBe(true);
  expect(changes({ properties: [{ key: "model", type: "text", placeholder: "{{model}}" }] })).toBe(true);
});
