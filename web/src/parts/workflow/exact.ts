// JSON without rounded numbers: seeds of engines have 64 bits, and a JavaScript number has 53. Pure.

type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;
const raw = (JSON as unknown as { rawJSON?: (text: string) => unknown }).rawJSON;

/** A whole number that JavaScript would round. It is written as it was read. */
export class ExactNumber {
  constructor(readonly text: string) {}

  toString(): string {
    return this.text;
  }

  toJSON(): unknown {
    return raw === undefined ? Number(this.text) : raw(this.text);
  }
}

const revive: Reviver = (_key, value, context) =>
  typeof value === "number" &&
  Number.isInteger(value) &&
  !Number.isSafeInteger(value) &&
  /^-?\d+$/.test(context?.source ?? "")
    ? new ExactNumber(context!.source!)
    : value;

export function parseExact(text: string): unknown {
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown);
}

/** Whether both are written alike. The order of the members of an object does not matter. */
export function same(one: unknown, other: unknown): boolean {
  return canonical(one) === canonical(other);
}

function canonical(value: unknown): string {
  if (value instanceof ExactNumber) return value.text;
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return `{${members
      .map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`)
      .sort()
      .join(",")}}`;
  }
  return JSON.stringify(value) ?? "null";
}

/** A value in one line, for people. */
export function shownValue(value: unknown): string {
  if (value instanceof ExactNumber) return value.text;
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}
