// Many jobs of one effect, submitted in one request.
import { JobHandle } from "./job.ts";
import { freshKey } from "./keys.ts";
import type { Batch, PageOfJobs } from "./models.ts";
import { sleep } from "./patience.ts";
import { NotEnded } from "./problems.ts";
import type { Requests } from "./requests.ts";

const FIRST_PAUSE = 0.5;
const MAX_PAUSE = 5;
const PAGE = 100;

export interface BatchWaitOptions {
  /** Called with the batch whenever it was read again. */
  onProgress?: ((batch: Batch) => void) | undefined;
  /** After this time NotEnded is thrown. The batch goes on. */
  timeoutSeconds?: number | undefined;
  signal?: AbortSignal | undefined;
}

export class BatchHandle {
  /** The batch as the control plane described it last. */
  now: Batch;
  readonly #requests: Requests;

  constructor(now: Batch, requests: Requests) {
    this.now = now;
    this.#requests = requests;
  }

  get id(): string {
    return this.now.id;
  }

  /** Reads the batch again. */
  refresh(signal?: AbortSignal): Promise<Batch> {
    return this.#ask("GET", "", signal);
  }

  /** Waits until every job has ended, with any outcome: `now.counts` has the number of each. */
  async wait({ onProgress, timeoutSeconds = Infinity, signal }: BatchWaitOptions = {}): Promise<this> {
    const end = performance.now() + timeoutSeconds * 1000;
    for (let pause = FIRST_PAUSE; ; pause = Math.min(pause * 1.5, MAX_PAUSE)) {
      onProgress?.(await this.refresh(signal));
      if (this.now.status === "finished") return this;
      if (performance.now() + pause * 1000 > end)
        throw new NotEnded(`Batch ${this.id} has not ended in time. It goes on.`);
      await sleep(pause, signal);
    }
  }

  /** Cancels all jobs that have not ended. */
  cancel(): Promise<Batch> {
    return this.#ask("POST", "/cancel");
  }

  /** Retries all jobs that have failed or expired. */
  retry(): Promise<Batch> {
    return this.#ask("POST", "/retry", undefined, freshKey());
  }

  /** The jobs of the batch. */
  async jobs(): Promise<JobHandle[]> {
    const found: JobHandle[] = [];
    let after = "";
    for (;;) {
      const path = `/api/ai-jobs?batch_id=${this.id}&limit=${PAGE}${after}`;
      const page = await this.#requests.ask<PageOfJobs>("GET", path);
      found.push(...page.items.map((each) => new JobHandle(each, this.#requests)));
      if (page.next_cursor == null) return found;
      after = `&cursor=${encodeURIComponent(page.next_cursor)}`;
    }
  }

  async #ask(method: string, path: string, signal?: AbortSignal, idempotencyKey?: string): Promise<Batch> {
    const options = { signal, idempotencyKey };
    this.now = await this.#requests.ask<Batch>(method, `/api/batches/${this.id}${path}`, undefined, options);
    return this.now;
  }
}
