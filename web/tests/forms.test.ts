import { expect, test } from "vitest";
import { stepOf, tidy } from "@/parts/form/NumberField";
import {
  choiceLabel,
  initialValues,
  labelOf,
  mergedValues,
  type Property,
  payloadOf,
  problemsOf,
} from "@/parts/form/values";

function property(key: string, type: Property["type"], rest: Partial<Property> = {}): Property {
  return {
    key,
    type,
    label: key,
    description: "",
    required: false,
    default: null,
    accept: [],
    limits: { integer: false },
    ...rest,
  };
}
const prompt = property("prompt", "text", { required: true, limits: { integer: false, max_length: 5 } });
const strength = property("strength", "number", { default: 0.5, limits: { integer: false, min: 0, max: 1 } });
const logo = property("logo", "image");
const size = property("size", "choice", { limits: { integer: false, choices: [1, 2] } });
const all = [prompt, strength, logo, size];

test("a form starts with its defaults", () => {
  expect(initialValues(all)).toEqual({ prompt: "", strength: 0.5, logo: null, size: 1 });
});

test("a seed that JavaScript would round is left to the API", () => {
  const limits = { integer: true, min: 0, max: 2 ** 64 };
  const seed = property("seed", "number", { default: 2 ** 64, limits });
  expect(payloadOf([seed], initialValues([seed]))).toEqual({});
  const exact = property("count", "number", { default: Number.MAX_SAFE_INTEGER, limits });
  expect(payloadOf([exact], initialValues([exact]))).toEqual({ count: Number.MAX_SAFE_INTEGER });
});

test("a seed is left to the API, and that of an earlier job is used again", () => {
  const seed = property("noise_seed", "number", { default: 7, limits: { integer: true, min: 0, max: 2 ** 32 } });
  expect(payloadOf([seed], initialValues([seed]))).toEqual({});
  expect(payloadOf([seed], mergedValues([seed], { noise_seed: 7 }))).toEqual({ noise_seed: 7 });
});

test("of a draft only what still fits is taken", () => {
  const draft = { prompt: "hi", strength: "much", size: 3, gone: 1 };
  expect(mergedValues(all, draft)).toEqual({ prompt: "hi", strength: 0.5, logo: null, size: 1 });
});

test("problems are named by key", () => {
  expect(problemsOf(all, { prompt: " ", strength: 2, logo: null, size: 1 })).toEqual({
    prompt: "Fill this in.",
    strength: "The largest value is 1.",
  });
  expect(problemsOf(all, { prompt: "sunset", strength: 1, logo: null, size: 1 })).toEqual({
    prompt: "Use at most 5 characters.",
  });
  expect(problemsOf([prompt], { prompt: "😀😀😀😀😀" })).toEqual({});
});

test("what is empty is not sent, and a file by its id", () => {
  const file = { id: "f", name: "a.png", mimeType: "image/png", size: 1 };
  expect(payloadOf(all, { prompt: "", strength: 0.5, logo: file, size: 2 })).toEqual({
    strength: 0.5,
    logo: "f",
    size: 2,
  });
});

test("keys read as words", () => {
  expect(labelOf({ key: "start_frame", label: "start_frame" })).toBe("Start frame");
  expect(labelOf({ key: "x", label: "The X" })).toBe("The X");
  expect([choiceLabel("bottom-left"), choiceLabel(16), choiceLabel("16:9")]).toEqual(["Bottom left", "16", "16:9"]);
});

test("sliders move in steps that fit their range", () => {
  expect([
    stepOf({ min: 0, max: 1 }),
    stepOf({ min: 0.1, max: 4 }),
    stepOf({ min: 0, max: 500 }),
    stepOf({ min: 0, max: 9, integer: true }),
    stepOf({ step: 0.25 }),
  ]).toEqual([0.01, 0.05, 1, 1, 0.25]);
  expect(tidy(0.1 + 0.2, 0.05)).toBe(0.3);
});
