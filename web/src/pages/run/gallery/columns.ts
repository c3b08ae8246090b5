/** Number of images side by side: two on a phone, and never smaller than a useful thumbnail. Pure. */
export function columnsFor(width: number): number {
  return width < 480 ? 2 : Math.max(2, Math.floor(width / 200));
}
