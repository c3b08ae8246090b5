// Reads amounts of tokens. Pure.
/** `1,000`, `1 000` or `1000` as a number of tokens; null if it is not a whole number above 0. */
export function amountOf(typed: string): number | null {
  const digits = typed.trim().replace(/[,\s]/g, "");
  const amount = /^\d{1,16}$/.test(digits) ? Number(digits) : 0;
  return amount > 0 && Number.isSafeInteger(amount) ? amount : null;
}
