// A number with its noun. `make lint` finds texts that count by hand: many of them were wrong for 1.
const numbers = new Intl.NumberFormat("en");

/** "1 token" or "2 tokens"; with the verb where it follows: counted(count, "job waits", "jobs wait"). A text is a number that is written already, like "1000+". */
export function counted(count: number | string, one: string, many = `${one}s`): string {
  return `${typeof count === "number" ? numbers.format(count) : count} ${choose(count, one, many)}`;
}

/** Only the words. */
export function choose(count: number | string, one: string, many = `${one}s`): string {
  return String(count) === "1" ? one : many;
}
