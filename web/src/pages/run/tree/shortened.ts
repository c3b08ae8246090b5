/** Shortens a text to the available width. A canvas would press the letters together instead. */
export function shortened(text: string, widthOf: (text: string) => number, room: number): string {
  if (widthOf(text) <= room) return text;
  const letters = Array.from(text);
  let [fits, tooLong] = [0, letters.length];
  const cut = (count: number) => `${letters.slice(0, count).join("").trimEnd()}…`;
  while (tooLong - fits > 1) {
    const middle = (fits + tooLong) >> 1;
    if (widthOf(cut(middle)) <= room) fits = middle;
    else tooLong = middle;
  }
  return cut(fits);
}
