import { BatchHandle } from "./batch.ts";
import { JobHandle, type ResultFile, type WaitOptions } from "./job.ts";
import { freshKey } from "./keys.ts";
import type { Batch, Effect, Job, PageOfEffects, Quote, StoredFile, Wallet } from "./models.ts";
import { Patience, sleep } from "./patience.ts";
import { ClientError } from "./problems.ts";
import { type Fetch, type RequestOptions, Requests } from "./requests.ts";
import { type UploadOptions, upload } from "./transfers.ts";
import { Bodies, type UploadingOptions, type Value, type Values } from "./values.ts";

export interface ClientOptions {
  /** For how long a request is sent again if the control plane cannot be reached or asks to wait. */
  retrySeconds?: number | undefined;
  /** The user that the service key of a tenant acts for: `external:ID`, `user:UUID` or `email:…`. */
  onBehalfOf?: string | undefined;
  fetch?: Fetch | undefined;
}

interface CommonOptions extends UploadingOptions {
  /** Makes a repeated submit one job and one charge. By default, the client makes a new key. */
  idempotencyKey?: string | undefined;
  clientReference?: string | undefined;
  metadata?: Record<string, string> | undefined;
  priority?: number | undefined;
}

export interface SubmitOptions extends CommonOptions {
  /** Where the events of this job are sent. It must start like an endpoint of yours with the scope `job`. */
  webhookUrl?: string | undefined;
}

export interface BatchOptions extends CommonOptions {
  /** With lists of values: a job for each combination, or one for the first values, one for the second, and so on. */
  mode?: "cartesian" | "zipped" | undefined;
}

const URL_VARIABLE = "CALLSHEET_CLIENT__URL";
const KEY_VARIABLE = "CALLSHEET_CLIENT__API_KEY";
const ON_BEHALF_OF = "Callsheet-On-Behalf-Of";
const NAME_OF_USER = /^(external|user|email):[!-~]+$/;
const RETRY_SECONDS = 60;
const PAGE = 100;

/** A client of one user. */
export class Callsheet {
  readonly url: string;
  readonly #requests: Requests;

  /** Node reads what is not given from the variables CALLSHEET_CLIENT__URL and CALLSHEET_CLIENT__API_KEY. */
  constructor(url?: string, key?: string, options: ClientOptions = {}) {
    const [foundUrl, foundKey] = urlAndKey(url, key);
    this.url = foundUrl;
    const user = options.onBehalfOf;
    if (user !== undefined && !NAME_OF_USER.test(user))
      throw new ClientError(`"${user}" names no user: it must start with external:, user: or email:.`);
    const fetcher = options.fetch ?? ((...request) => fetch(...request));
    const headers = {
      Authorization: `Bearer ${foundKey}`,
      ...(user === undefined ? {} : { [ON_BEHALF_OF]: user }),
    };
    this.#requests = new Requests(this.url, headers, options.retrySeconds ?? RETRY_SECONDS, fetcher);
  }

  async effects(): Promise<Effect[]> {
    const found: Effect[] = [];
    let cursor: string | null | undefined = "";
    while (cursor != null) {
      const after: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const page: PageOfEffects = await this.#requests.ask("GET", `/api/effects?limit=${PAGE}${after}`);
      found.push(...page.items);
      cursor = page.next_cursor;
    }
    return found;
  }

  effect(slug: string): Promise<Effect> {
    return this.#requests.ask("GET", `/api/effects/${encodeURIComponent(slug)}`);
  }

  wallet(): Promise<Wallet> {
    return this.#requests.ask("GET", "/api/wallet");
  }

  /** Uploads a file for later jobs. */
  upload(source: Blob, options: UploadOptions = {}): Promise<StoredFile> {
    return upload(this.#requests, source, options);
  }

  /**
   * Uploads the files and submits a job. The file that the effect works on is given by its type, for example `video`,
   * or as `file`. All other names are properties of the effect.
   */
  async submit(effect: string, values: Values = {}, options: SubmitOptions = {}): Promise<JobHandle> {
    const { signal } = options;
    const [given] = await new Bodies(this.#requests, effect, options).of([values]);
    const body = { effect_id: effect, ...given, ...fieldsOf(options), webhook_url: options.webhookUrl };
    // The key is made once, so a request that is sent again after a lost response finds the job of the first one.
    const idempotencyKey = options.idempotencyKey ?? freshKey();
    const job = await this.#requests.ask<Job>("POST", "/api/ai-jobs", body, { idempotencyKey, signal });
    return new JobHandle(job, this.#requests);
  }

  /**
   * Submits up to 1,000 jobs of an effect in one request: all are accepted, or none. Give a list of items, each with the
   * values of one job, or lists of values, of which each combination is a job.
   */
  async batch(
    effect: string,
    items: readonly Values[] | Record<string, readonly Value[]>,
    options: BatchOptions = {},
  ): Promise<BatchHandle> {
    const { signal } = options;
    const body = { ...(await this.#batchBody(effect, items, options)), ...fieldsOf(options) };
    const idempotencyKey = options.idempotencyKey ?? freshKey();
    const batch = await this.#requests.ask<Batch>("POST", "/api/batches", body, { idempotencyKey, signal });
    return new BatchHandle(batch, this.#requests);
  }

  /**
   * Asks what `submit` with the same values would cost now, and what is missing. Nothing is held. Files are uploaded, as
   * `submit` does: to upload a file once, give the result of `upload` to both. It waits until a file is measured if the
   * price depends on it.
   */
  async quote(effect: string, values: Values = {}, options: UploadingOptions = {}): Promise<Quote> {
    const { signal } = options;
    const [given] = await new Bodies(this.#requests, effect, options).of([values]);
    return this.#quoted({ effect: { effect_id: effect, ...given } }, signal);
  }

  /**
   * Asks what `batch` with the same items or lists would cost now, and what is missing. Files are uploaded, as for
   * `quote`. Leave them out if the price does not depend on them: it is known then, too.
   */
  async quoteBatch(
    effect: string,
    items: readonly Values[] | Record<string, readonly Value[]>,
    options: UploadingOptions & Pick<BatchOptions, "mode"> = {},
  ): Promise<Quote> {
    return this.#quoted({ batch: await this.#batchBody(effect, items, options) }, options.signal);
  }

  async #quoted(body: object, signal: AbortSignal | undefined): Promise<Quote> {
    const patience = new Patience(this.#requests.retrySeconds);
    for (;;) {
      const quote = await this.#requests.ask<Quote>("POST", "/api/quotes", body, { repeat: true, signal });
      const open = quote.missing.find((each) => each.code === "file_not_measured");
      const seconds = open && patience.waitSeconds(open.retry_after_seconds ?? null);
      if (seconds == null) return quote;
      await sleep(seconds, signal);
    }
  }

  /** Submits a job, waits until it has completed, and returns its main file. */
  async run(effect: string, values: Values = {}, options: SubmitOptions & WaitOptions = {}): Promise<ResultFile> {
    const job = await this.submit(effect, values, options);
    return (await job.wait(options)).file;
  }

  /** A job that was submitted before. */
  async job(id: string): Promise<JobHandle> {
    return new JobHandle(await this.#requests.ask("GET", `/api/ai-jobs/${encodeURIComponent(id)}`), this.#requests);
  }

  /**
   * Sends any request of the API, as JSON. POST and PATCH are sent once, unless they have an idempotency key or
   * `repeat` says that they may be sent again.
   */
  request<Response = unknown>(
    method: string,
    path: string,
    body?: unknown,
    options: RequestOptions = {},
  ): Promise<Response> {
    return this.#requests.ask(method, path, body, options);
  }

  async #batchBody(
    effect: string,
    items: readonly Values[] | Record<string, readonly Value[]>,
    options: UploadingOptions & Pick<BatchOptions, "mode">,
  ) {
    const bodies = new Bodies(this.#requests, effect, options);
    const jobs = isList(items) ? { items: await bodies.of(items) } : { grid: await this.#grid(bodies, items, options) };
    return { effect_id: effect, ...jobs };
  }

  async #grid(bodies: Bodies, lists: Record<string, readonly Value[]>, { mode }: Pick<BatchOptions, "mode">) {
    const { known, names } = await bodies.mainOf();
    const { [names.find((each) => each in lists) ?? ""]: files, ...values } = lists;
    bodies.check(Object.keys(values), known);
    const stored = async (list: readonly Value[]) => {
      const found = [];
      for (const each of list) found.push(await bodies.stored(each));
      return found;
    };
    const entries: [string, unknown][] = [];
    for (const [name, list] of Object.entries(values)) entries.push([name, await stored(list)]);
    return { mode, input_file_ids: files && (await stored(files)), values: Object.fromEntries(entries) };
  }
}

function isList(items: readonly Values[] | Record<string, readonly Value[]>): items is readonly Values[] {
  return Array.isArray(items);
}

function fieldsOf({ clientReference, metadata, priority }: BatchOptions) {
  return { client_reference: clientReference, metadata, priority };
}

/** The key of the environment belongs to its URL. */
function urlAndKey(url: string | undefined, key: string | undefined): [string, string] {
  const variables = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {};
  const plain = (text: string) => text.replace(/\/+$/, "");
  const found = plain(variables[URL_VARIABLE] ?? "");
  const chosen = plain(url ?? found);
  if (chosen === "") throw new ClientError(`The URL of the control plane is missing. Give it, or set ${URL_VARIABLE}.`);
  if (key === undefined && found !== "" && found !== chosen)
    throw new ClientError(`${KEY_VARIABLE} is for ${found}. It is not sent to ${chosen}: give the key.`);
  const used = key ?? variables[KEY_VARIABLE];
  if (!used) throw new ClientError(`The API key is missing. Give it, or set ${KEY_VARIABLE}.`);
  return [chosen, used];
}
