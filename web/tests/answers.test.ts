import { describe, expect, it } from "vitest";
import { answerOf, labelOf } from "@/parts/job/answers";

describe("what a task answered", () => {
  it("is a text", () => {
    expect(answerOf({ result: { text: "Meet the lamp." }, outputs: [], metadata: {} })).toEqual({
      form: "text",
      text: "Meet the lamp.",
    });
  });
  it("has its text first", () => {
    const answer = answerOf({ result: { note: "n", text: "t" } });
    expect(answer?.form === "fields" && answer.fields.map((field) => field.name)).toEqual(["text", "note"]);
  });
  it("is a table where all rows are flat", () => {
    const answer = answerOf({ products: [{ name: "a", price: 1 }, { name: "b" }] });
    expect(answer).toMatchObject({
      form: "fields",
      fields: [{ answer: { form: "table", table: { columns: ["name", "price"] } } }],
    });
  });
  it("is nothing where there are only files", () => {
    expect(answerOf({ outputs: [{ file_id: "1" }], metadata: {} })).toBeNull();
    expect(answerOf(null)).toBeNull();
  });
  it("ends, however deep it is", () => {
    let deep: unknown = "bottom";
    for (let level = 0; level < 50; level++) deep = [deep];
    expect(JSON.stringify(answerOf({ deep }))).toContain("bottom");
  });
  it("has names for people", () => expect(labelOf("written_by")).toBe("Written by"));
});
