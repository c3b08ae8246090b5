// One key for one wish: whatever is lost on the way, repeating the request makes no second job.
import { ApiError } from "./problems";

/** Random, also on pages without HTTPS, where `crypto.randomUUID` is missing. */
export function freshKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class IdempotencyKey {
  #key: string | null = null;
  #body = "";

  /** The same key for the same body, as long as it is not known what became of it. */
  of(body: unknown): string {
    const text = JSON.stringify(body);
    if (this.#key === null || text !== this.#body) {
      this.#key = freshKey();
      this.#body = text;
    }
    return this.#key;
  }

  /** It was accepted, or refused for good: the next press is another wish. */
  settle(error: unknown): void {
    const isOpen = error !== null && (!(error instanceof ApiError) || error.status >= 500 || error.status === 429);
    if (!isOpen) this.#key = null;
  }
}
