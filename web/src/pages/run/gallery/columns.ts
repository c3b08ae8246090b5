/** How many images are side by side. Two on a phone, and none smaller than a thumbnail is worth. Pure. */
export function columnsFor(width: number): number {
  return width < 480 ? 2 : Math.max(2, Math.floor(width / 200));
}
