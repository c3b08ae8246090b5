import { describe, expect, it } from "vitest";
import { type Graph, readGraph } from "@/parts/graph/graph";
import { layoutGraph, NODE_HEIGHT, NODE_WIDTH } from "@/parts/graph/layout";

// As people export it: https://docs.comfy.org, "text to image".
const TEXT_TO_IMAGE = {
  "3": {
    class_type: "KSampler",
    inputs: { seed: 7, model: ["4", 0], positive: ["6", 0], negative: ["7", 0], latent_image: ["5", 0] },
    _meta: { title: "Sample" },
  },
  "4": { class_type: "CheckpointLoaderSimple", inputs: { ckpt_name: "model.safetensors" } },
  "5": { class_type: "EmptyLatentImage", inputs: { width: 512, height: 512, batch_size: 1 } },
  "6": { class_type: "CLIPTextEncode", inputs: { text: "a lake", clip: ["4", 1] } },
  "7": { class_type: "CLIPTextEncode", inputs: { text: "text", clip: ["4", 1] } },
  "8": { class_type: "VAEDecode", inputs: { samples: ["3", 0], vae: ["4", 2] } },
  "9": { class_type: "SaveImage", inputs: { images: ["8", 0], filename_prefix: "out" } },
};

function read(value: unknown): Graph {
  const graph = readGraph(value);
  expect(graph).not.toBeNull();
  return graph!;
}

function chain(length: number): Record<string, unknown> {
  return Object.fromEntries(
    Array.from({ length }, (_, index) => [
      String(index),
      { class_type: "Step", inputs: index ? { from: [String(index - 1), 0] } : {} },
    ]),
  );
}

function overlaps(graph: Graph): string[][] {
  const places = [...layoutGraph(graph).positions];
  return places.flatMap(([one, a], index) =>
    places
      .slice(index + 1)
      .flatMap(([other, b]) =>
        Math.abs(a.x - b.x) < NODE_WIDTH && Math.abs(a.y - b.y) < NODE_HEIGHT - 0.001 ? [[one, other]] : [],
      ),
  );
}

describe("reading a graph", () => {
  it("takes titles from people and classes otherwise, and separates links from values", () => {
    const graph = read(TEXT_TO_IMAGE);
    const sampler = graph.nodes.find((node) => node.id === "3")!;
    expect(sampler.title).toBe("Sample");
    expect(graph.nodes.find((node) => node.id === "9")!.title).toBe("SaveImage");
    expect(sampler.inputs[0]).toEqual({ name: "seed", value: 7 });
    expect(sampler.inputs[1]).toEqual({ name: "model", from: { node: "4", slot: 0 } });
    expect(graph.edges).toHaveLength(9);
  });

  it("has one edge for two inputs that come from one node", () => {
    const graph = read({
      "1": { class_type: "A", inputs: {} },
      "2": { class_type: "B", inputs: { left: ["1", 0], right: ["1", 1] } },
    });
    expect(graph.edges.map((edge) => edge.inputs)).toEqual([["left", "right"]]);
  });

  it("leaves out what is not a node, and links to nodes that are not there", () => {
    const graph = read({
      "1": { class_type: "A", inputs: ["not", "an", "object"], _meta: { title: 5 } },
      "2": { class_type: "B", inputs: { from: ["99", 0], size: [512, 512], range: ["a", "b"], title: null } },
      "3": { inputs: {} },
      "4": null,
      nodes: [],
      constructor: { class_type: "toString", inputs: { __proto__: 3, valueOf: ["constructor", 0] } },
    });
    expect(graph.nodes.map((node) => node.id)).toEqual(["1", "2", "constructor"]);
    expect(graph.edges.map((edge) => [edge.source, edge.target])).toEqual([["constructor", "constructor"]]);
    expect(graph.nodes[1]!.inputs[2]).toEqual({ name: "range", value: ["a", "b"] });
    expect([null, 3, "x", [], {}, { nodes: [], links: [] }].map(readGraph)).toEqual([
      null,
      null,
      null,
      null,
      null,
      null,
    ]);
  });

  it("keeps markup in titles as the text that it is", () => {
    const title = "<img src=x onerror=alert(1)>";
    expect(read({ "1": { class_type: "<b>A</b>", inputs: {}, _meta: { title } } }).nodes[0]).toMatchObject({
      title,
      classType: "<b>A</b>",
    });
  });
});

describe("laying a graph out", () => {
  it("draws a node right of everything that it needs", () => {
    const graph = read(TEXT_TO_IMAGE);
    const { positions } = layoutGraph(graph);
    for (const edge of graph.edges) expect(positions.get(edge.source)!.x).toBeLessThan(positions.get(edge.target)!.x);
    // What needs nothing is next to what needs it, not at the far left.
    expect(positions.get("5")!.x).toBe(positions.get("6")!.x);
    expect(overlaps(graph)).toEqual([]);
  });

  it("draws the same graph alike every time", () => {
    expect(layoutGraph(read(TEXT_TO_IMAGE))).toEqual(layoutGraph(read(structuredClone(TEXT_TO_IMAGE))));
  });

  it("places every node of a cycle, of a link to itself and of parts without a connection", () => {
    const graph = read({
      a: { class_type: "A", inputs: { back: ["c", 0] } },
      b: { class_type: "B", inputs: { from: ["a", 0] } },
      c: { class_type: "C", inputs: { from: ["b", 0] } },
      self: { class_type: "D", inputs: { from: ["self", 0] } },
      alone: { class_type: "Note", inputs: {} },
      x: { class_type: "X", inputs: {} },
      y: { class_type: "Y", inputs: { from: ["x", 0] } },
    });
    expect(layoutGraph(graph).positions.size).toBe(7);
    expect(overlaps(graph)).toEqual([]);
  });

  it("folds a long chain, so that it is not a line that no one can read", () => {
    const { width, height } = layoutGraph(read(chain(200)));
    expect(width / height).toBeGreaterThan(1);
    expect(width / height).toBeLessThan(5);
    expect(overlaps(read(chain(200)))).toEqual([]);
  });

  it("places 200 nodes with many links, a wide fan and a chain of 2,000", () => {
    const dense = Object.fromEntries(
      Array.from({ length: 200 }, (_, index) => [
        String(index),
        {
          class_type: "N",
          inputs: Object.fromEntries(
            index ? [1, 2, 3].map((each) => [`in${each}`, [String(((index - 1) * 31 + each * 7919) % index), 0]]) : [],
          ),
        },
      ]),
    );
    const fan = {
      root: { class_type: "R", inputs: {} },
      ...Object.fromEntries(
        Array.from({ length: 150 }, (_, index) => [`n${index}`, { class_type: "N", inputs: { from: ["root", 0] } }]),
      ),
    };
    for (const value of [dense, fan, chain(2000)]) {
      const graph = read(value);
      expect(layoutGraph(graph).positions.size).toBe(graph.nodes.length);
      expect(
        [...layoutGraph(graph).positions.values()].every(({ x, y }) => x >= 0 && y >= 0 && Number.isFinite(x + y)),
      ).toBe(true);
    }
    expect(overlaps(read(dense))).toEqual([]);
    expect(overlaps(read(fan))).toEqual([]);
  });
});
