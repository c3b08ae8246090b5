// A number with its noun. `make lint` finds texts that count by hand, because many of them were wrong for 1.
export const formatNumber = new Intl.NumberFormat("en").format;

/**
 * "1 token" or "2 tokens". The verb can follow: counted(count, "job waits", "jobs wait"). A text is an already
 * formatted number, for example "1000+".
 */
export function counted(count: number | string, one: string, many = `${one}s`): string {
  return `${typeof count === "number" ? formatNumber(count) : count} ${choose(count, one, many)}`;
}

/** Returns the words without the number. */
export function choose(count: number | string, one: string, many = `${one}s`): string {
  return String(count) === "1" ? one : many;
}
