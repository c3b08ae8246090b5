import { expect, test } from "vitest";
import { fieldsOf, initialOf, payloadOf, problemsOf, resolved, type Schema, withValue } from "@/parts/form/schema";

const schema: Schema = {
  type: "object",
  required: ["product", "kind"],
  properties: {
    style: { type: "string", default: "plain", maxLength: 10 },
    tone: { anyOf: [{ type: "string" }, { type: "null" }], default: null },
    product: { $ref: "#/$defs/Product" },
    kind: { const: "copy" },
    params: {
      type: "object",
      properties: { steps: { type: "integer", default: 8, minimum: 1 }, image: { type: "string" } },
      required: ["image"],
    },
  },
  $defs: {
    Product: {
      type: "object",
      required: ["title"],
      properties: { title: { type: "string" }, images: { type: "array", items: { type: "string" } } },
    },
  },
};

test("references and “or null” are resolved", () => {
  expect(resolved(schema.properties!.tone!, schema).type).toBe("string");
  expect(fieldsOf(schema, schema).map((field) => [field.name, field.kind, field.required])).toEqual([
    ["product", "object", true],
    ["kind", "choice", true],
    ["style", "text", false],
    ["tone", "text", false],
    ["params", "object", false],
  ]);
});

test("a form starts with defaults and constants", () => {
  expect(initialOf(schema, schema)).toEqual({
    product: {},
    kind: "copy",
    style: "plain",
    tone: null,
    params: { steps: 8 },
  });
});

test("what is left empty is left out, and so is an object of defaults", () => {
  const value = withValue(initialOf(schema, schema), ["product", "title"], "Lamp");
  expect(payloadOf(schema, schema, value)).toEqual({ product: { title: "Lamp" }, kind: "copy", style: "plain" });
  expect(payloadOf(schema, schema, withValue(value, ["params", "steps"], 9))).toMatchObject({ params: { steps: 9 } });
});

test("problems are named by path", () => {
  expect(problemsOf(schema, schema, initialOf(schema, schema))).toEqual({ "product.title": { is: "required" } });
  const value = { product: { title: "Lamp" }, kind: "copy", style: "much too long", params: { steps: 0.5 } };
  expect(problemsOf(schema, schema, value)).toEqual({
    style: { is: "tooLong", most: 10 },
    "params.image": { is: "required" },
    "params.steps": { is: "atLeast", least: 1 },
  });
});
