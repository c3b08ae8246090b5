// The values of a job, and the files that are uploaded for them.
import { InvalidRequest } from "./codes.ts";
import type { Effect, EffectProperty, StoredFile, Video } from "./models.ts";
import type { Requests } from "./requests.ts";
import type { Counted } from "./sending.ts";
import { upload } from "./transfers.ts";

/** A value of a property. A Blob is uploaded. */
export type Value = boolean | number | string | null | Blob | StoredFile | Video;
export type Values = Record<string, Value>;

export interface UploadingOptions {
  onUpload?: Counted | undefined;
  signal?: AbortSignal | undefined;
}

/** The part of a body that the values make. */
export interface Given {
  input_payload: Record<string, unknown>;
  input_file_id?: string;
  video_id?: string;
}

/** Makes bodies of one request. A Blob that is in several of them is uploaded once. */
export class Bodies {
  readonly #requests: Requests;
  readonly #slug: string;
  readonly #options: UploadingOptions;
  readonly #uploads = new Map<Blob, Promise<StoredFile>>();
  #effect: Effect | null = null;

  constructor(requests: Requests, slug: string, options: UploadingOptions) {
    this.#requests = requests;
    this.#slug = slug;
    this.#options = options;
  }

  /** The values are checked before anything is uploaded. */
  async of(values: readonly Values[]): Promise<Given[]> {
    const checked: { main: Value; properties: Values }[] = [];
    for (const each of values) checked.push(await this.#checked(each));
    const given: Given[] = [];
    for (const { main, properties } of checked) given.push(await this.#given(main, properties));
    return given;
  }

  async #given(main: Value, properties: Values): Promise<Given> {
    const payload: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(properties)) payload[name] = await this.stored(value);
    if (main === null) return { input_payload: payload };
    // A job of a video changes the status of this video.
    if (isVideo(main)) return { input_payload: payload, video_id: main.id };
    return { input_payload: payload, input_file_id: String(await this.stored(main)) };
  }

  /** The value as the API takes it: the id of a file. */
  async stored(value: Value): Promise<boolean | number | string | null> {
    if (typeof value !== "object" || value === null) return value;
    return value instanceof Blob ? (await this.#uploaded(value)).id : value.id;
  }

  #uploaded(file: Blob): Promise<StoredFile> {
    const { onUpload: onProgress, signal } = this.#options;
    const uploading = this.#uploads.get(file) ?? upload(this.#requests, file, { onProgress, signal });
    this.#uploads.set(file, uploading);
    return uploading;
  }

  /** The file that the effect works on, and the properties. */
  async #checked(values: Values): Promise<{ main: Value; properties: Values }> {
    const properties = { ...values };
    const hasFile = Object.values(values).some((value) => typeof value === "object" && value !== null);
    if (!hasFile && !("file" in values)) return { main: null, properties };
    const { known, names, input } = await this.mainOf();
    const name = names.find((each) => each in properties);
    const main = name === undefined ? null : (properties[name] ?? null);
    if (name !== undefined) delete properties[name];
    this.check(Object.keys(properties), known);
    if (main !== null && !input) throw invalid("file", `${this.#slug} takes no file. Leave the file out.`);
    return { main, properties };
  }

  /** The names of the properties, and those under which the file that the effect works on may be given. */
  async mainOf(): Promise<{ known: Set<string>; names: string[]; input: boolean }> {
    const path = `/api/effects/${encodeURIComponent(this.#slug)}`;
    this.#effect ??= await this.#requests.ask<Effect>("GET", path, undefined, { signal: this.#options.signal });
    const known = new Set(this.#effect.properties.map((each: EffectProperty) => each.key));
    const input = this.#effect.input;
    const names = ["file", ...(input ? [input.type] : [])].filter((each) => !known.has(each));
    return { known, names, input: Boolean(input) };
  }

  check(names: readonly string[], known: ReadonlySet<string>): void {
    for (const name of names) {
      if (known.has(name)) continue;
      const offered = [...known].sort().join(", ") || "none";
      throw invalid(name, `${name}: ${this.#slug} has no such property. It has: ${offered}.`);
    }
  }
}

function isVideo(value: Value): value is Video {
  return typeof value === "object" && value !== null && "original_file_id" in value;
}

/** The same error as that of the control plane. */
function invalid(field: string, reason: string): InvalidRequest {
  const title = "The request has fields that are missing, unknown or wrong.";
  const code = "invalid_request";
  const type = `urn:callsheet:error:${code}`;
  return new InvalidRequest({ type, title, status: 422, code, detail: reason, errors: [{ field, reason }] });
}
