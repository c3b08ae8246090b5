// Values of a form for properties: initial values, problems, and the values to send. Pure.
import type { Schemas } from "@/api/types";
import { isFileType } from "@/parts/media";
import type { FileValue } from "@/parts/UploadField";
import { formTexts } from "@/texts/form";

export type Property = Schemas["EffectProperty"];
export type PlainValue = string | number | boolean;
export type FormValue = PlainValue | FileValue | null;
export type FormValues = Record<string, FormValue>;

export function isFile(value: FormValue | undefined): value is FileValue {
  return typeof value === "object" && value !== null;
}

export function initialValues(properties: readonly Property[]): FormValues {
  return Object.fromEntries(properties.map((each) => [each.key, shownDefault(each) ?? emptyOf(each)]));
}

/**
 * Null for a file, for a number that JavaScript has rounded, and for a seed: the API uses its own default for the first
 * two, and draws a seed that it does not get, so that the same prompt twice makes two results.
 */
function shownDefault({ key, type, default: value }: Property): PlainValue | null {
  const isRounded = Number.isInteger(value) && !Number.isSafeInteger(value);
  return isFileType(type) || isRounded || isSeed(key, type) ? null : (value ?? null);
}

/** The rule of the API: src/callsheet/effects/seeds.py. */
function isSeed(key: string, type: Property["type"]): boolean {
  return type === "number" && /(^|_)seed(_|$)/.test(key);
}

function emptyOf(property: Property): FormValue {
  switch (property.type) {
    case "text":
      return "";
    case "boolean":
      return false;
    case "choice":
      return property.limits.choices?.[0] ?? null;
    default:
      return null;
  }
}

/** Values of a draft or an earlier job for properties that still exist and still fit. */
export function mergedValues(properties: readonly Property[], earlier: Record<string, unknown>): FormValues {
  const values = initialValues(properties);
  for (const each of properties) {
    const found = earlier[each.key] as FormValue | undefined;
    if (found !== undefined && fits(each, found)) values[each.key] = found;
  }
  return values;
}

function fits(property: Property, value: FormValue): boolean {
  switch (property.type) {
    case "text":
      return typeof value === "string";
    case "boolean":
      return typeof value === "boolean";
    case "number":
      return typeof value === "number" || value === null;
    case "choice":
      return property.limits.choices?.some((choice) => choice === value) ?? false;
    default:
      return value === null || (isFile(value) && typeof value.id === "string");
  }
}

/** A sentence for each value that the server would refuse, by key. */
export function problemsOf(properties: readonly Property[], values: FormValues): Record<string, string> {
  const found = properties.map((each) => [each.key, problemOf(each, values[each.key] ?? null)] as const);
  return Object.fromEntries(found.filter((entry): entry is readonly [string, string] => entry[1] !== null));
}

function problemOf({ type, required, limits }: Property, value: FormValue): string | null {
  if (value === null || (typeof value === "string" && value.trim() === "")) return required ? formTexts.required : null;
  if (type === "text" && typeof value === "string" && limits.max_length && [...value].length > limits.max_length)
    return formTexts.tooLong(limits.max_length);
  if (type !== "number" || typeof value !== "number") return null;
  if (limits.min != null && value < limits.min) return formTexts.atLeast(limits.min);
  if (limits.max != null && value > limits.max) return formTexts.atMost(limits.max);
  if (limits.integer && !Number.isInteger(value)) return formTexts.whole;
  return null;
}

/** Values in the form of the API. Empty ones are left out, so their defaults apply. */
export function payloadOf(properties: readonly Property[], values: FormValues): Record<string, PlainValue> {
  const payload: Record<string, PlainValue> = {};
  for (const { key, type } of properties) {
    const value = values[key] ?? null;
    if (isFile(value)) payload[key] = value.id;
    else if (value !== null && !(type === "text" && value === "")) payload[key] = value;
  }
  return payload;
}

/** "start_frame" becomes "Start frame" if there is no label. */
export function labelOf({ key, label }: { key: string; label: string }): string {
  if (label !== "" && label !== key) return label;
  return titled(key);
}

export function titled(name: string): string {
  const words = name
    .replace(/[_-]+/g, " ")
    .replace(/\burl\b/gi, "URL")
    .trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Text of a choice: "bottom-left" becomes "Bottom left". Numbers and ratios stay unchanged. */
export function choiceLabel(value: PlainValue): string {
  return typeof value === "string" ? titled(value) : String(value);
}
