// Placeholders in texts: {{prompt}}, {{seed}}, the parent's image, and variables of the run. Pure.
import type { Json } from "@/parts/form/schema";

const PLACEHOLDER = /\{\{([^{}]*)\}\}/g;
const VALID = /^[a-z][a-z0-9_]{0,62}$/;
export const PROMPT = "prompt";
export const SEED = "seed";
export const PARENT = "parent_image_path";
export const PARENT_FILE = "parent_file_id";
const BUILT_IN: readonly string[] = [PROMPT, SEED, PARENT, PARENT_FILE];

export interface Place {
  start: number;
  end: number;
  name: string;
}

export function placesIn(text: string): Place[] {
  return [...text.matchAll(PLACEHOLDER)].map((found) => ({
    start: found.index,
    end: found.index + found[0].length,
    name: found[1]!,
  }));
}

export function placeholder(name: string): string {
  return `{{${name}}}`;
}

export function isTemplate(value: unknown): value is string {
  return typeof value === "string" && placesIn(value).length > 0;
}

/** Every name in a document. Keys are not texts. */
export function namesIn(value: Json | undefined): Set<string> {
  if (typeof value === "string") return new Set(placesIn(value).map((each) => each.name));
  if (Array.isArray(value)) return union(value.map(namesIn));
  if (typeof value === "object" && value !== null) return union(Object.values(value).map(namesIn));
  return new Set();
}

export function union(sets: readonly Set<string>[]): Set<string> {
  return new Set(sets.flatMap((each) => [...each]));
}

/** Variables that a run provides. */
export function variablesOf(names: Iterable<string>): string[] {
  return [...new Set(names)].filter((name) => !BUILT_IN.includes(name) && VALID.test(name)).sort();
}

export interface Surroundings {
  /** The first step has no parent. */
  isFirst: boolean;
  /**
   * Whether a text may name the parent's image. Payloads of actors may; values of workflows get the image
   * automatically.
   */
  takesParent: boolean;
  /** Variables that other steps use. */
  known: readonly string[];
}

export type Meaning = "prompt" | "seed" | "parent" | "variable" | "new" | "wrong";

/** Meaning of a name in a text. `new`: no other step uses it, and a run must provide it. */
export function meaningOf(name: string, { isFirst, takesParent, known }: Surroundings): Meaning {
  if (name === PROMPT) return "prompt";
  if (name === SEED) return "seed";
  if (name === PARENT || name === PARENT_FILE) return isFirst || !takesParent ? "wrong" : "parent";
  if (!VALID.test(name)) return "wrong";
  return known.includes(name) ? "variable" : "new";
}

/** A known name that differs from this one only by a typo. */
export function meant(name: string, { isFirst, takesParent, known }: Surroundings): string | null {
  const names = [PROMPT, SEED, ...(isFirst || !takesParent ? [] : [PARENT, PARENT_FILE]), ...known];
  if (names.includes(name)) return null;
  const near = names
    .map((each) => ({ each, far: distance(name.toLowerCase().replaceAll(/[\s-]+/g, "_"), each) }))
    .filter(({ each, far }) => far <= Math.min(2, Math.floor(each.length / 3)));
  near.sort((one, other) => one.far - other.far);
  return near[0]?.each ?? null;
}

/** Number of letters to change, add or remove. */
export function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let at = 1; at <= one.length; at += 1) {
    const next = [at];
    for (let to = 1; to <= other.length; to += 1) {
      next.push(Math.min(row[to]! + 1, next[to - 1]! + 1, row[to - 1]! + (one[at - 1] === other[to - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[other.length]!;
}

export interface Completion {
  /** Position of the opening braces. */
  start: number;
  /** Position after the placeholder, behind closing braces if there are any. */
  end: number;
  /** Typed part of the name. */
  query: string;
}

/** The placeholder at the caret. One brace is enough. */
export function completionAt(text: string, caret: number): Completion | null {
  const found = /\{{1,2}([A-Za-z0-9_]*)$/.exec(text.slice(0, caret));
  if (found === null) return null;
  const rest = /^[A-Za-z0-9_]*\}{0,2}/.exec(text.slice(caret))![0];
  // If the caret is inside a word, only closing braces after it are replaced.
  return { start: found.index, end: caret + (rest.endsWith("}") ? rest.length : 0), query: found[1]!.toLowerCase() };
}

export function completed(text: string, completion: Completion, name: string): { text: string; caret: number } {
  const put = placeholder(name);
  return {
    text: text.slice(0, completion.start) + put + text.slice(completion.end),
    caret: completion.start + put.length,
  };
}

export interface Suggestion {
  name: string;
  meaning: Meaning;
}

/** Suggestions for this place. Names that start with the typed text come first. */
export function suggestionsFor(query: string, surroundings: Surroundings): Suggestion[] {
  const names = [
    PROMPT,
    ...surroundings.known,
    SEED,
    ...(surroundings.isFirst || !surroundings.takesParent ? [] : [PARENT, PARENT_FILE]),
  ];
  const fitting = names.filter((name) => name.includes(query));
  const isNew = query !== "" && VALID.test(query) && !names.includes(query);
  const sorted = [
    ...fitting.filter((name) => name.startsWith(query)),
    ...fitting.filter((name) => !name.startsWith(query)),
    ...(isNew ? [query] : []),
  ];
  return sorted.map((name) => ({ name, meaning: meaningOf(name, surroundings) }));
}
