/** Random idempotency key. It also works on pages without HTTPS, where `crypto.randomUUID` is missing. */
export function freshKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
