// Arranges the items of a batch by the values in which they differ. Pure.
import type { Schemas } from "@/api/types";
import { labelOf } from "@/parts/form/values";

export interface Heading {
  key: string;
  /** For example "Strength 0.5". */
  text: string;
}

export interface Layout {
  rows: Heading[];
  columns: Heading[];
  /** Number of the item in each row and column; undefined if there is none. */
  items: (number | undefined)[][];
}

interface Item {
  item: number;
  /** The text of each dimension. */
  values: string[];
}

// More columns cannot be compared side by side.
const MAX_COLUMNS = 40;
const FILE = "input_file";
const ID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

/**
 * A grid if the items are all combinations of two or more lists: the last list makes the columns. Null otherwise.
 * `names` are the input files by item.
 */
export function layoutOf(found: Schemas["BatchValues"], names: ReadonlyMap<number, string>): Layout | null {
  const files = new Set(names.values());
  const keys = [...(files.size > 1 ? [FILE] : []), ...found.keys];
  const textOf = ({ item, values }: Schemas["BatchItemValues"], key: string) =>
    key === FILE ? (names.get(item) ?? "") : (values[key] ?? "");
  const all = found.items;
  const distinct = (key: string) => new Set(all.map((each) => textOf(each, key))).size;
  // A drawn seed differs in each item, and an id says nothing to a reader.
  const shown = keys.filter((key) => !all.every((each) => ID.test(textOf(each, key))));
  const dimensions = [shown, shown.filter((key) => distinct(key) < all.length)].find(
    (each) => each.length > 1 && each.reduce((product, key) => product * distinct(key), 1) === all.length,
  );
  if (dimensions === undefined || distinct(dimensions.at(-1)!) > MAX_COLUMNS) return null;
  return arranged(
    all.map((each) => ({ item: each.item, values: dimensions.map((key) => textOf(each, key)) })),
    dimensions,
  );
}

function arranged(items: readonly Item[], dimensions: readonly string[]): Layout {
  const rows = new Map<string, Heading>();
  const columns = new Map<string, Heading>();
  const places = new Map<string, number>();
  for (const { item, values } of items) {
    const headings = values.map((value, index) => headingOf(dimensions[index]!, value));
    const row = JSON.stringify(values.slice(0, -1));
    const column = values.at(-1)!;
    rows.set(row, { key: row, text: headings.slice(0, -1).join(", ") });
    columns.set(column, { key: column, text: headings.at(-1)! });
    places.set(JSON.stringify([row, column]), item);
  }
  return {
    rows: [...rows.values()],
    columns: [...columns.values()],
    items: [...rows.keys()].map((row) =>
      [...columns.keys()].map((column) => places.get(JSON.stringify([row, column]))),
    ),
  };
}

/** A text says what it is; a number needs its name. */
function headingOf(key: string, value: string): string {
  if (key === FILE || !/^-?[\d.]+$|^true$|^false$|^$/.test(value)) return value;
  return `${labelOf({ key, label: "" })} ${value || "–"}`;
}
