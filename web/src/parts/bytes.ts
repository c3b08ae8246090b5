// Reads and writes numbers of bytes for people. Pure.
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"] as const;
const STEP = 1000;
const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** Formats bytes: 0 B, 1.5 kB, 20 GB. */
export function formatBytes(bytes: number): string {
  let size = bytes;
  let unit = 0;
  // 999.95 kB would round to 1,000 kB.
  while (size >= STEP - 0.05 && unit < UNITS.length - 1) {
    size /= STEP;
    unit += 1;
  }
  return `${numbers.format(size)} ${UNITS[unit]}`;
}

/** `20 GB`, `1.5kb` or `1000` as a number of bytes; null for other texts. Units of 1024 work too: `1 GiB`. */
export function parseBytes(text: string): number | null {
  const found = /^\s*(\d+(?:[.,]\d+)?)\s*([kmgtp]?)(i?)b?\s*$/i.exec(text);
  if (found === null) return null;
  const power = ["", "k", "m", "g", "t", "p"].indexOf((found[2] ?? "").toLowerCase());
  if (found[3] && power === 0) return null;
  const bytes = Math.round(Number((found[1] ?? "").replace(",", ".")) * (found[3] ? 1024 : STEP) ** power);
  return Number.isSafeInteger(bytes) ? bytes : null;
}
