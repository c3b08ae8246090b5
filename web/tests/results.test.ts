import { describe, expect, it } from "vitest";
import { labelOf, readableResult } from "@/parts/job/results";

describe("what a task answered", () => {
  it("is a text", () => {
    expect(readableResult({ result: { text: "Meet the lamp." }, outputs: [], metadata: {} })).toEqual({
      form: "text",
      text: "Meet the lamp.",
    });
  });
  it("has its text first", () => {
    const result = readableResult({ result: { note: "n", text: "t" } });
    expect(result?.form === "fields" && result.fields.map((field) => field.name)).toEqual(["text", "note"]);
  });
  it("is a table where all rows are flat", () => {
    const result = readableResult({ products: [{ name: "a", price: 1 }, { name: "b" }] });
    expect(result).toMatchObject({
      form: "fields",
      fields: [{ result: { form: "table", table: { columns: ["name", "price"] } } }],
    });
  });
  it("is nothing where there are only files", () => {
    expect(readableResult({ outputs: [{ file_id: "1" }], metadata: {} })).toBeNull();
    expect(readableResult(null)).toBeNull();
  });
  it("ends, however deep it is", () => {
    let deep: unknown = "bottom";
    for (let level = 0; level < 50; level++) deep = [deep];
    expect(JSON.stringify(readableResult({ deep }))).toContain("bottom");
  });
  it("has names for people", () => expect(labelOf("written_by")).toBe("Written by"));
});
