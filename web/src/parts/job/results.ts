// Chooses the best form for the result of a task. Pure.
export type Cell = string | number | boolean | null;
export interface Table {
  columns: string[];
  rows: Record<string, Cell>[];
}
export type ReadableResult =
  | { form: "text"; text: string }
  | { form: "table"; table: Table }
  | { form: "list"; items: string[] }
  | { form: "fields"; fields: { name: string; result: ReadableResult }[] };

const DEEPEST = 5;

/** `result` of a job contains the value of its actor in `result.result`. Files are shown separately. */
export function readableResult(result: Record<string, unknown> | null | undefined): ReadableResult | null {
  if (!result) return null;
  const returned = result.result;
  const { outputs: _outputs, metadata: _metadata, result: _result, ...made } = result;
  const whole = isRecord(returned) ? { ...returned, ...made } : made;
  if (Object.keys(whole).length === 0) return null;
  const { text, ...rest } = whole;
  if (typeof text === "string" && Object.keys(rest).length === 0) return { form: "text", text };
  // The text comes first, whatever else there is.
  return read(typeof text === "string" ? { text, ...rest } : whole, 0);
}

function read(value: unknown, depth: number): ReadableResult {
  if (Array.isArray(value)) return readList(value, depth);
  if (isRecord(value) && depth < DEEPEST) {
    const fields = Object.entries(value)
      .filter(([, each]) => each !== null && each !== "" && !(Array.isArray(each) && each.length === 0))
      .map(([name, each]) => ({ name, result: read(each, depth + 1) }));
    return { form: "fields", fields };
  }
  return { form: "text", text: asText(value) };
}

function readList(items: unknown[], depth: number): ReadableResult {
  if (items.length > 0 && items.every((item) => isRecord(item) && Object.values(item).every(isCell))) {
    const rows = items as Record<string, Cell>[];
    return { form: "table", table: { columns: [...new Set(rows.flatMap((row) => Object.keys(row)))], rows } };
  }
  if (items.every(isCell)) return { form: "list", items: items.map(asText) };
  if (depth >= DEEPEST) return { form: "text", text: asText(items) };
  return {
    form: "fields",
    fields: items.map((item, index) => ({ name: String(index + 1), result: read(item, depth + 1) })),
  };
}

function asText(value: unknown): string {
  if (typeof value === "string") return value;
  return typeof value === "object" ? JSON.stringify(value, null, 2) : String(value);
}

function isCell(value: unknown): value is Cell {
  return value === null || ["string", "number", "boolean"].includes(typeof value);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `written_by` becomes the label "Written by". */
export function labelOf(name: string): string {
  const words = name.replace(/[_-]+/g, " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
