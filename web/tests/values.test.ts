import { expect, it } from "vitest";
import { valuesOf } from "@/pages/job/values";

it("names what was set, without the prompt and files", () => {
  const payload = {
    prompt: "rain",
    strength: 0.8,
    logo: "01a1e44a-8fcf-76df-9995-8fea938a1d96",
    empty: "",
    sharp_edges: true,
  };
  expect(valuesOf(payload, [{ key: "strength", label: "How strong" }], "rain")).toEqual([
    { name: "How strong", text: "0.8" },
    { name: "Sharp edges", text: "true" },
  ]);
  expect(valuesOf(null, undefined, null)).toEqual([]);
});
