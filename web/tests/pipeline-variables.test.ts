import { describe, expect, it } from "vitest";
import {
  completed,
  completionAt,
  distance,
  meaningOf,
  meant,
  namesIn,
  suggestionsFor,
  variablesOf,
} from "@/pages/pipeline/variables";

const second = { isFirst: false, takesParent: true, known: ["style", "size"] };
const first = { ...second, isFirst: true };

describe("placeholders in texts", () => {
  it("are found in every text of a document", () => {
    const found = namesIn({
      prompt: "{{prompt}}, {{style}}",
      params: { list: ["{{seed}}", 3, null], "{{key}}": true },
    });
    expect([...found].sort()).toEqual(["prompt", "seed", "style"]);
    expect(variablesOf([...found, "Not valid", "parent_image_path"])).toEqual(["style"]);
  });

  it("mean something where they stand", () => {
    expect(
      ["prompt", "seed", "style", "mood", "My mood", "parent_image_path"].map((name) => meaningOf(name, second)),
    ).toEqual(["prompt", "seed", "variable", "new", "wrong", "parent"]);
    expect(meaningOf("parent_image_path", first)).toBe("wrong");
    expect(meaningOf("parent_file_id", { ...second, takesParent: false })).toBe("wrong");
  });

  it("that are nearly a known name are recognised", () => {
    expect(distance("promt", "prompt")).toBe(1);
    expect(meant("promt", second)).toBe("prompt");
    expect(meant("Style", second)).toBe("style");
    expect(meant("stlye", second)).toBeNull();
    expect(meant("mood", second)).toBeNull();
    expect(meant("prompt", second)).toBeNull();
  });
});

describe("completion", () => {
  it("begins with one brace or two, at the caret", () => {
    expect(completionAt("a {", 3)).toEqual({ start: 2, end: 3, query: "" });
    expect(completionAt("a {{St", 6)).toEqual({ start: 2, end: 6, query: "st" });
    expect(completionAt("a {{style}}", 11)).toBeNull();
    expect(completionAt("a b", 3)).toBeNull();
    expect(completionAt("{a b", 4)).toBeNull();
  });

  it("replaces what was typed and braces that are there already", () => {
    expect(completed("a {{st, b", completionAt("a {{st, b", 6)!, "style")).toEqual({
      text: "a {{style}}, b",
      caret: 11,
    });
    expect(completed("{{pr}} x", completionAt("{{pr}} x", 4)!, "prompt")).toEqual({ text: "{{prompt}} x", caret: 10 });
    expect(completed("{{pmpt}} x", completionAt("{{pmpt}} x", 3)!, "prompt").text).toBe("{{prompt}} x");
    expect(completed("{word", completionAt("{word", 1)!, "seed").text).toBe("{{seed}}word");
  });

  it("offers what fits there, and a new name last", () => {
    expect(suggestionsFor("", first).map((each) => each.name)).toEqual(["prompt", "style", "size", "seed"]);
    expect(suggestionsFor("", second).map((each) => each.name)).toContain("parent_image_path");
    expect(suggestionsFor("s", second).map((each) => [each.name, each.meaning])).toEqual([
      ["style", "variable"],
      ["size", "variable"],
      ["seed", "seed"],
      ["s", "new"],
    ]);
    expect(suggestionsFor("style", second).map((each) => each.name)).toEqual(["style"]);
  });
});
