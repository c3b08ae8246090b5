// Lists of values for a batch: reads what was typed, counts the jobs, and makes the request. Pure.
import type { Effect, Schemas } from "@/api/types";
import { type FormValues, type PlainValue, type Property, payloadOf, problemsOf } from "@/parts/form/values";
import { isFileType } from "@/parts/media";
import { gridTexts } from "@/texts/grid";

export const MAX_JOBS = 1000;
// One range must not fill the memory.
const MAX_RANGE = 10_000;
const RANGE = /^(-?\d+)\.\.(-?\d+)$/;

export type Mode = NonNullable<Schemas["BatchGrid"]["mode"]>;
/** The list of a property: a text with a value per line or between commas, or the chosen values. */
export type List = string | PlainValue[];
export type Lists = Record<string, List>;
type Listed = Record<string, PlainValue[]>;

/** Properties that have a list each. Files beside the main one are the same for all jobs. */
export function listedProperties(effect: Effect): Property[] {
  return effect.properties.filter(({ type }) => !isFileType(type));
}

/** The values of a list. A number that is not one stays a text, which `gridProblems` names. */
export function valuesOf({ type }: Property, list: List | undefined): PlainValue[] {
  if (list === undefined) return [];
  if (typeof list !== "string") return list;
  if (type === "text")
    return list
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => line !== "");
  return list
    .split(/[\s,;]+/)
    .filter((part) => part !== "")
    .flatMap(numbersOf);
}

function numbersOf(part: string): PlainValue[] {
  const range = RANGE.exec(part);
  if (range === null) return [Number.isFinite(Number(part)) ? Number(part) : part];
  const [first, last] = [Number(range[1]), Number(range[2])];
  const count = Math.abs(last - first) + 1;
  if (count > MAX_RANGE) return [part];
  return Array.from({ length: count }, (_, index) => first + Math.sign(last - first) * index);
}

export function listedValues(effect: Effect, lists: Lists): Listed {
  const found = listedProperties(effect).map((each) => [each.key, valuesOf(each, lists[each.key])] as const);
  return Object.fromEntries(found.filter(([, values]) => values.length > 0));
}

/** The number of jobs. Lists of different lengths have no rows. */
export function countOf(listed: Listed, files: number, mode: Mode): number {
  const lengths = [...Object.values(listed).map((values) => values.length), ...(files > 0 ? [files] : [])];
  if (mode === "cartesian") return lengths.reduce((product, length) => product * length, 1);
  return Math.max(1, ...lengths);
}

/** A sentence for each list that cannot be sent, by key. */
export function gridProblems(effect: Effect, listed: Listed, files: number, mode: Mode): Record<string, string> {
  const rows = countOf(listed, files, "zipped");
  const problems: Record<string, string> = {};
  for (const property of listedProperties(effect)) {
    const { key, type } = property;
    const values = listed[key] ?? [];
    const wrong = values.find((value) => type === "number" && typeof value !== "number");
    const found = (values.length > 0 ? values : [null])
      .map((value) => problemsOf([property], { [key]: value })[key])
      .find(Boolean);
    if (wrong !== undefined) problems[key] = gridTexts.notNumber(String(wrong));
    else if (found) problems[key] = found;
    else if (mode === "zipped" && values.length > 1 && values.length !== rows)
      problems[key] = gridTexts.otherLength(values.length, rows);
  }
  return problems;
}

/** The request. A list of one value is the same for all jobs, so rows may have other lengths. */
export function bodyOf(effect: Effect, listed: Listed, mode: Mode, fileIds: readonly string[], fixed: FormValues) {
  const single = Object.entries(listed).filter(([, values]) => values.length === 1);
  const many = Object.entries(listed).filter(([, values]) => values.length > 1);
  const files = effect.properties.filter(({ type }) => isFileType(type));
  const rows = Math.max(1, ...many.map(([, values]) => values.length));
  const ids = mode === "zipped" && fileIds.length === 1 ? Array<string>(rows).fill(fileIds[0]!) : [...fileIds];
  // Without any list of several values it is a batch of one job.
  const values =
    many.length === 0 && ids.length === 0 ? Object.fromEntries(single.slice(0, 1)) : Object.fromEntries(many);
  return {
    effect_id: effect.slug,
    input_payload: {
      ...payloadOf(files, fixed),
      ...Object.fromEntries(single.filter(([key]) => !(key in values)).map(([key, [value]]) => [key, value!])),
    },
    grid: { mode, values, ...(ids.length > 0 ? { input_file_ids: ids } : {}) },
  };
}
