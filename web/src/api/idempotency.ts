// One idempotency key per user action. A request that is repeated after a lost response creates no second job.
import { freshKey } from "@client/keys";
import { ApiError } from "./problems";

export class IdempotencyKey {
  #key: string | null = null;
  #body = "";

  /** Returns the same key for the same body until the outcome of the request is known. */
  of(body: unknown): string {
    const text = JSON.stringify(body);
    if (this.#key === null || text !== this.#body) {
      this.#key = freshKey();
      this.#body = text;
    }
    return this.#key;
  }

  /** The server accepted or refused the request, so the next press is a new action with a new key. */
  settle(error: unknown): void {
    const isOpen = error !== null && (!(error instanceof ApiError) || error.status >= 500 || error.status === 429);
    if (!isOpen) this.#key = null;
  }
}
