import type { InfiniteData } from "@tanstack/react-query";

/** Pages of a list with these rows in front. Pure. */
export function prepended<Row extends { id: string }, Page extends { items: Row[] }>(
  found: InfiniteData<Page> | undefined,
  rows: readonly Row[],
): InfiniteData<Page> | undefined {
  const [first, ...rest] = found?.pages ?? [];
  if (!found || !first) return found;
  const known = new Set(first.items.map((row) => row.id));
  const items = [...rows.filter((row) => !known.has(row.id)), ...first.items];
  return { ...found, pages: [{ ...first, items }, ...rest] };
}
