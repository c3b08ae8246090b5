import { InvalidRequest } from "./codes.ts";
import { JobHandle, type ResultFile, type WaitOptions } from "./job.ts";
import { freshKey } from "./keys.ts";
import type { Effect, EffectProperty, Job, PageOfEffects, StoredFile, Video, Wallet } from "./models.ts";
import { ClientError, type Refusal } from "./problems.ts";
import { type Fetch, type RequestOptions, Requests } from "./requests.ts";
import { type Counted, type UploadOptions, upload } from "./transfers.ts";

/** A value of a property. A Blob is uploaded. */
export type Value = boolean | number | string | null | Blob | StoredFile | Video;

export interface ClientOptions {
  /** For how long a request is sent again if the control plane cannot be reached or asks to wait. */
  retrySeconds?: number;
  fetch?: Fetch;
}

export interface SubmitOptions {
  /** Makes a repeated submit one job and one charge. By default, the client makes a new key. */
  idempotencyKey?: string | undefined;
  clientReference?: string | undefined;
  metadata?: Record<string, string> | undefined;
  /** Where the events of this job are sent. It must start like an endpoint of yours with the scope `job`. */
  webhookUrl?: string | undefined;
  priority?: number | undefined;
  onUpload?: Counted | undefined;
  signal?: AbortSignal | undefined;
}

const URL_VARIABLE = "CALLSHEET_CLIENT__URL";
const KEY_VARIABLE = "CALLSHEET_CLIENT__API_KEY";
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
    const fetcher = options.fetch ?? ((...request) => fetch(...request));
    this.#requests = new Requests(foundUrl, foundKey, options.retrySeconds ?? RETRY_SECONDS, fetcher);
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
  async submit(effect: string, values: Record<string, Value> = {}, options: SubmitOptions = {}): Promise<JobHandle> {
    const { onUpload: onProgress, signal } = options;
    const checked = await this.#checked(effect, values);
    const stored = async (value: Value) => {
      const file = value instanceof Blob ? await this.upload(value, { onProgress, signal }) : value;
      return typeof file === "object" && file !== null ? file.id : file;
    };
    const payload: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(checked.properties)) payload[name] = await stored(value);
    const { file } = checked;
    const main = isVideo(file)
      ? { video_id: file.id }
      : { input_file_id: file === null ? undefined : await stored(file) };
    const body = {
      effect_id: effect,
      input_payload: payload,
      ...main,
      client_reference: options.clientReference,
      metadata: options.metadata,
      webhook_url: options.webhookUrl,
      priority: options.priority,
    };
    // The key is made once, so a request that is sent again after a lost response finds the job of the first one.
    const idempotencyKey = options.idempotencyKey ?? freshKey();
    const job = await this.#requests.ask<Job>("POST", "/api/ai-jobs", body, { idempotencyKey, signal });
    return new JobHandle(job, this.#requests);
  }

  /** Submits a job, waits until it has completed, and returns its main file. */
  async run(
    effect: string,
    values: Record<string, Value> = {},
    options: SubmitOptions & WaitOptions = {},
  ): Promise<ResultFile> {
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

  /** The file that the effect works on, and the properties. They are checked before anything is uploaded. */
  async #checked(slug: string, values: Record<string, Value>) {
    const properties = { ...values };
    let main: Value = null;
    if (!("file" in values) && !Object.values(values).some((value) => typeof value === "object" && value !== null))
      return { file: main, properties };
    const effect = await this.effect(slug);
    const known = new Set(effect.properties.map((each: EffectProperty) => each.key));
    for (const name of ["file", effect.input?.type]) {
      if (main !== null || name === undefined || known.has(name) || !(name in properties)) continue;
      main = properties[name] ?? null;
      delete properties[name];
    }
    for (const name of Object.keys(properties)) {
      if (known.has(name)) continue;
      const offered = [...known].sort().join(", ") || "none";
      throw invalid(name, `${name}: ${slug} has no such property. It has: ${offered}.`);
    }
    if (main !== null && !effect.input) throw invalid("file", `${slug} takes no file. Leave the file out.`);
    return { file: main, properties };
  }
}

function isVideo(value: Value): value is Video {
  return typeof value === "object" && value !== null && "original_file_id" in value;
}

/** The same error as that of the control plane. */
function invalid(field: string, reason: string): Refusal {
  const title = "The request has fields that are missing, unknown or wrong.";
  const code = "invalid_request";
  const type = `urn:callsheet:error:${code}`;
  return new InvalidRequest({ type, title, status: 422, code, detail: reason, errors: [{ field, reason }] });
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
