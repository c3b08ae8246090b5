/** A path of this application, or nothing. A link must not send a user who signs in to another site. */
export function safeNext(value: unknown): string | undefined {
  if (typeof value !== "string" || !value.startsWith("/") || value.length > 2_000) return undefined;
  // A browser reads `//host` and `/\host` as URLs of other sites.
  if (/^\/[/\\]/.test(value) || /[\u0000-\u001f]/.test(value)) return undefined;
  return value.startsWith("/sign-in") ? undefined : value;
}
