// Converts times between form, URL and API. Pure.

/** A time for `<input type="datetime-local">`, in the reader's zone. */
export function localOf(utc: string | undefined): string {
  if (utc === undefined) return "";
  const at = new Date(utc);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** Converts the text of the input, or a time in the URL, to UTC; undefined for an invalid one. */
export function utcOf(text: string): string | undefined {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}
