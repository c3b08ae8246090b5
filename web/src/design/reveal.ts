/**
 * Scrolls a list until one of its entries is visible. `scrollIntoView` would do the same, but then Tab continues from
 * that entry: the first Tab on a page would skip everything before it, also the link to the content.
 */
export function reveal(list: HTMLElement | null, selector: string): void {
  const entry = list?.querySelector(selector);
  if (!list || !entry) return;
  const outer = list.getBoundingClientRect();
  const inner = entry.getBoundingClientRect();
  list.scrollTop += beyond(inner.top, inner.bottom, outer.top, outer.bottom);
  list.scrollLeft += beyond(inner.left, inner.right, outer.left, outer.right);
}

/** Distance of a part before (negative) or after the visible window. */
export function beyond(start: number, end: number, first: number, last: number): number {
  if (start < first) return start - first;
  return end > last ? Math.min(end - last, start - first) : 0;
}
