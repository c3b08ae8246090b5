/** Scrolls a list so that one of its entries can be seen. `scrollIntoView` would do the same, but a browser then continues
 * with Tab from that entry: the first Tab of a page would skip everything before it, the link to the content too. */
export function reveal(list: HTMLElement | null, selector: string): void {
  const entry = list?.querySelector(selector);
  if (!list || !entry) return;
  const outer = list.getBoundingClientRect();
  const inner = entry.getBoundingClientRect();
  list.scrollTop += beyond(inner.top, inner.bottom, outer.top, outer.bottom);
  list.scrollLeft += beyond(inner.left, inner.right, outer.left, outer.right);
}

/** How far a part is before (negative) or after the window through which it is seen. */
export function beyond(start: number, end: number, first: number, last: number): number {
  if (start < first) return start - first;
  return end > last ? Math.min(end - last, start - first) : 0;
}
