// Times as a form has them and as the URL and the API have them. Pure.

/** A time as `<input type="datetime-local">` has it, in the reader's zone. */
export function localOf(utc: string | undefined): string {
  if (utc === undefined) return "";
  const at = new Date(utc);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** What the input has, or a time in the URL, as a time in UTC; undefined if it is none. */
export function utcOf(text: string): string | undefined {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}
