import { describe, expect, it } from "vitest";
import type { Schemas } from "@/api/types";
import { nameOfFile, slugOf } from "@/parts/slugs";
import { changedNodes, diffOf, isEmptyDiff } from "@/parts/workflow/diff";
import {
  type Draft,
  draftOf,
  keyOf,
  keysByNode,
  type Property,
  type PropertyType,
  placesOf,
  rebased,
  retyped,
  withGraph,
  withOutput,
  withoutProperty,
  withProperty,
} from "@/parts/workflow/draft";
import { ExactNumber, parseExact, same, shownValue } from "@/parts/workflow/exact";

const SEED = "18446744073709551615";

function property(values: Partial<Property>): Property {
  return {
    key: "prompt",
    type: "text",
    label: "",
    description: "",
    placeholder: "{{prompt}}",
    default: null,
    required: true,
    user_configurable: true,
    is_primary_input: false,
    limits: { integer: false },
    ...values,
  } as Property;
}

function draft(values: Partial<Draft> = {}): Draft {
  const graph = {
    "1": { class_type: "LoadImage", inputs: { image: "cat.png" } },
    "3": {
      class_type: "CLIPTextEncode",
      inputs: { text: "{{prompt}}, sharp", clip: ["4", 1] },
      _meta: { title: "Prompt" },
    },
    "9": { class_type: "SaveImage", inputs: { images: ["3", 0], filename_prefix: "x" } },
  };
  return draftOf({
    name: "Cats",
    description: "",
    graph,
    properties: [property({})],
    output_node_id: "9",
    output_extension: "png",
    output_mime_type: "image/png",
    keep_metadata: false,
    run_limit_seconds: 3600,
    lease_seconds: null,
    max_attempts: null,
    refund_on_cancel: "all",
    requirements: {} as Draft["requirements"],
    ...values,
  });
}

describe("numbers of 64 bits", () => {
  it("are written as they were read", () => {
    const graph = parseExact(`{"5":{"inputs":{"seed":${SEED},"steps":20,"cfg":1e30}}}`) as {
      "5": { inputs: Record<string, unknown> };
    };
    expect(graph["5"].inputs.seed).toBeInstanceOf(ExactNumber);
    expect(graph["5"].inputs.steps).toBe(20);
    expect(JSON.stringify({ ...graph })).toBe(`{"5":{"inputs":{"seed":${SEED},"steps":20,"cfg":1e+30}}}`);
    expect(shownValue(graph["5"].inputs.seed)).toBe(SEED);
  });

  it("differ from their neighbours, which a rounded number does not", () => {
    expect(same(new ExactNumber(SEED), new ExactNumber("18446744073709551614"))).toBe(false);
    expect(same({ b: 1, a: new ExactNumber(SEED) }, { a: new ExactNumber(SEED), b: 1 })).toBe(true);
  });
});

describe("a draft of a workflow", () => {
  it("finds the inputs of a property", () => {
    expect(placesOf(draft().graph, "{{prompt}}")).toEqual([{ node: "3", input: "text" }]);
    expect(keysByNode(draft())).toEqual(new Map([["3", ["prompt"]]]));
  });

  it("makes the first file the user's own, and a second one an asset", () => {
    const one = withProperty(
      draft(),
      {
        node_id: "1",
        name: "image",
        value: "cat.png",
        types: ["image"],
        label: "Customer photo",
        limits: { integer: false },
      },
      "image",
    );
    const input = one.properties[1]!;
    expect([input.key, input.placeholder, input.is_primary_input, input.default]).toEqual([
      "input",
      "__INPUT_PATH__",
      true,
      null,
    ]);
    expect(input.label).toBe("Customer photo");
    expect((one.graph!["1"] as { inputs: unknown }).inputs).toEqual({ image: "__INPUT_PATH__" });
    const two = withProperty(
      { ...one, graph: { ...one.graph, "2": { class_type: "LoadImage", inputs: { image: "b.png" } } } },
      { node_id: "2", name: "image", value: "b.png", types: ["image"], label: "", limits: { integer: false } },
      "image",
    );
    expect([two.properties[2]!.key, two.properties[2]!.placeholder, two.properties[2]!.is_primary_input]).toEqual([
      "image",
      "__IMAGE__",
      false,
    ]);
  });

  it("keeps the value of an input as the default, and puts it back", () => {
    const seed = new ExactNumber(SEED) as unknown as number;
    const graph = { ...draft().graph, "5": { class_type: "KSampler", inputs: { seed } } };
    const made = withProperty(
      draft({ graph }),
      { node_id: "5", name: "seed", value: seed, types: ["number"], label: "Seed", limits: { integer: true } },
      "number",
    );
    expect(made.properties[1]).toMatchObject({ key: "seed", default: seed, limits: { integer: true } });
    expect(same(withoutProperty(made, 1).graph, graph)).toBe(true);
  });

  it("takes the limits and choices that engines declare, for the type that they declare", () => {
    const graph = { ...draft().graph, "5": { class_type: "KSampler", inputs: { steps: 20, sampler_name: "euler" } } };
    const steps = {
      node_id: "5",
      name: "steps",
      value: 20,
      types: ["number", "choice"] as PropertyType[],
      label: "Portrait: Steps",
      limits: { integer: true, min: 1, max: 100 },
    };
    expect(withProperty(draft({ graph }), steps, "number").properties[1]).toMatchObject({
      label: "Portrait: Steps",
      limits: { integer: true, min: 1, max: 100 },
    });
    expect(withProperty(draft({ graph }), steps, "choice").properties[1]!.limits).toEqual({
      integer: false,
      choices: [20],
    });
    const sampler = {
      ...steps,
      name: "sampler_name",
      value: "euler",
      types: ["choice"] as PropertyType[],
      limits: { integer: false, choices: ["euler", "ddim"] },
    };
    expect(withProperty(draft({ graph }), sampler, "choice").properties[1]!.limits!.choices).toEqual(["euler", "ddim"]);
    expect(
      withProperty(draft({ graph }), { ...sampler, limits: { integer: false, choices: null } }, "choice").properties[1]!
        .limits!.choices,
    ).toEqual(["euler"]);
  });

  it("puts a default into the middle of a text", () => {
    const without = withoutProperty(draft({ properties: [property({ default: "a dog" })] }), 0);
    expect((without.graph!["3"] as { inputs: { text: string } }).inputs.text).toBe("a dog, sharp");
    expect(without.properties).toEqual([]);
  });

  it("takes the kind of file from the node that makes the result", () => {
    const outputs = [{ node_id: "7", class_type: "SaveVideo", extension: "mp4", mime_type: "video/mp4" }];
    expect(withOutput(draft(), "7", outputs)).toMatchObject({
      output_node_id: "7",
      output_extension: "mp4",
      output_mime_type: "video/mp4",
    });
    expect(withOutput(draft(), null, outputs)).toMatchObject({ output_node_id: null, output_extension: "png" });
    // A node that is not known makes a file of an unknown kind, not one of the kind of the node before.
    expect(withOutput(draft(), "9", outputs)).toMatchObject({
      output_node_id: "9",
      output_extension: "bin",
      output_mime_type: "application/octet-stream",
    });
    expect(withOutput(draft(), "9", undefined)).toMatchObject({ output_node_id: "9", output_extension: "png" });
  });

  it("keeps limits that fit another type only", () => {
    expect(retyped(property({ default: "noir", limits: { integer: false, max_length: 5 } }), "choice").limits).toEqual({
      integer: false,
      choices: ["noir"],
    });
    expect(retyped(property({ type: "image", default: "id", is_primary_input: true }), "video")).toMatchObject({
      default: null,
      is_primary_input: true,
    });
  });

  it("keeps what another person changed where one changed nothing", () => {
    const mine = draft({ name: "Mine", run_limit_seconds: 60 });
    const theirs = draft({ name: "Theirs", description: "New", properties: [] });
    expect(rebased(draft(), mine, theirs)).toMatchObject({
      name: "Mine",
      run_limit_seconds: 60,
      description: "New",
      properties: [],
    });
  });

  it("makes keys and slugs that the API takes", () => {
    expect([keyOf("Clip L"), keyOf("2x"), keyOf("Größe")]).toEqual(["clip_l", "value_2x", "gr_e"]);
    expect(slugOf(nameOfFile("My Workflow (v2).json"))).toBe("my-workflow-v2");
  });
});

describe("a new export for a workflow", () => {
  const graph = {
    "1": { class_type: "LoadImage", inputs: { image: "__INPUT_PATH__" } },
    "3": { class_type: "CLIPTextEncode", inputs: { text: "{{prompt}}" } },
    "12": { class_type: "SaveVideo", inputs: { video: ["3", 0] } },
  };
  const proposal = {
    graph,
    properties: [
      property({ default: "a new text", required: false }),
      property({ key: "input", type: "image", placeholder: "__INPUT_PATH__", is_primary_input: true }),
    ],
    inputs: [
      { node_id: "3", name: "text", value: "a new text", types: ["text"] },
      { node_id: "1", name: "image", value: "cat.png", types: ["image"] },
    ],
    outputs: [{ node_id: "12", class_type: "SaveVideo", extension: "mp4", mime_type: "video/mp4" }],
  } as unknown as Schemas["WorkflowProposal"];

  it("keeps what people set for inputs that are still there, and takes new proposals", () => {
    const next = withGraph(draft(), proposal);
    expect(next.properties.map((each) => each.key)).toEqual(["prompt", "input"]);
    expect(next.properties[0]!.required).toBe(true);
    expect((next.graph!["3"] as { inputs: { text: string } }).inputs.text).toBe("{{prompt}}, sharp");
    expect([next.output_node_id, next.output_extension]).toEqual(["12", "mp4"]);
  });

  it("drops properties whose node is another one now", () => {
    const other = { ...proposal, graph: { ...graph, "3": { class_type: "Other", inputs: { text: "{{prompt}}" } } } };
    expect(withGraph(draft(), other).properties[0]!.default).toBe("a new text");
  });
});

describe("what changed", () => {
  it("names nodes, inputs, properties and settings", () => {
    const before = draft();
    const after = draft({
      graph: {
        "3": {
          class_type: "CLIPTextEncode",
          inputs: { text: "{{prompt}}", clip: ["4", 1] },
          _meta: { title: "Words" },
        },
        "9": { class_type: "SaveImage", inputs: { filename_prefix: "x", images: ["3", 0] } },
        "10": { class_type: "ImageInvert", inputs: {} },
      },
      properties: [
        property({ limits: { integer: false, max_length: 40 } }),
        property({ key: "seed", placeholder: "{{seed}}" }),
      ],
      run_limit_seconds: 60,
    });
    const diff = diffOf(before, after);
    expect(diff.nodes.added.map((each) => each.id)).toEqual(["10"]);
    expect(diff.nodes.removed.map((each) => each.id)).toEqual(["1"]);
    expect(diff.nodes.changed).toEqual([
      {
        id: "3",
        title: "Words",
        classType: "CLIPTextEncode",
        changes: [
          { name: "title", before: "Prompt", after: "Words" },
          { name: "text", before: "{{prompt}}, sharp", after: "{{prompt}}" },
        ],
      },
    ]);
    expect(diff.properties).toEqual({
      added: ["seed"],
      removed: [],
      changed: [{ key: "prompt", changes: [{ name: "limits.max_length", before: undefined, after: 40 }] }],
      isMoved: false,
    });
    expect(diff.settings).toEqual([{ name: "run_limit_seconds", before: 3600, after: 60 }]);
    expect([...changedNodes(diff)]).toEqual([
      ["10", "added"],
      ["3", "changed"],
    ]);
    expect(isEmptyDiff(diff)).toBe(false);
  });

  it("is nothing where only the order of members differs, or a limit is null instead of missing", () => {
    const other = draft({ properties: [property({ limits: { max_length: null, integer: false } })] });
    expect(isEmptyDiff(diffOf(draft(), other))).toBe(true);
  });

  it("sees that properties were put into another order", () => {
    const two = [property({}), property({ key: "seed", placeholder: "{{seed}}" })];
    expect(diffOf(draft({ properties: two }), draft({ properties: [...two].reverse() })).properties.isMoved).toBe(true);
  });
});
