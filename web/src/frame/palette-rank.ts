// Ranks entries of the command palette by how well they match the typed text. Pure.

/** 0 means no match. The entry must contain every word; scattered letters do not count. */
export function rankOf(entry: string, typed: string, keywords: readonly string[] = []): number {
  const text = [entry, ...keywords].join(" ").toLowerCase();
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.every((word) => text.includes(word))) return 0;
  if (text.startsWith(words.join(" "))) return 1;
  return words.every((word) => text.split(/[^\p{L}\p{N}]+/u).some((each) => each.startsWith(word))) ? 0.8 : 0.5;
}
