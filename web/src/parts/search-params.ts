// Reads search parameters of any URL. A value that is not valid is left out. Pure.
const MAX_TEXT_LENGTH = 200;
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The router reads a search for 2026 as a number. */
export function text(value: unknown, maxLength = MAX_TEXT_LENGTH): string | undefined {
  const given = typeof value === "string" || typeof value === "number" ? String(value) : "";
  return given.trim().slice(0, maxLength) || undefined;
}

export function oneOf<Value>(value: unknown, values: readonly Value[]): Value | undefined {
  return values.find((each) => each === value);
}

export function matching(value: unknown, pattern: RegExp): string | undefined {
  return typeof value === "string" && pattern.test(value) ? value : undefined;
}

export function id(value: unknown): string | undefined {
  return matching(value, ID);
}

/** A whole number above 0. */
export function whole(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : undefined;
}
