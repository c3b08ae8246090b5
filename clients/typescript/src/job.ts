// A submitted job, and the files that it made.
import type { Job, JobOutput, JobProgress, JobStatus } from "./models.ts";
import { JobNotCompleted, NotEnded, Refusal, UnusableFile } from "./problems.ts";
import type { Requests } from "./requests.ts";
import { digestOf } from "./sending.ts";
import { hasEnded, type StreamItem, type StreamOptions, streamOf } from "./stream.ts";
import { check, download, type Sink, type UploadOptions } from "./transfers.ts";

export interface WaitOptions {
  /** Called with each progress. */
  onProgress?: ((progress: JobProgress) => void) | undefined;
  /** After this time NotEnded is thrown. The job goes on. */
  timeoutSeconds?: number | undefined;
  signal?: AbortSignal | undefined;
}

type DownloadOptions = Omit<UploadOptions, "name">;

export class ResultFile {
  readonly described: JobOutput;
  readonly #requests: Requests;

  constructor(described: JobOutput, requests: Requests) {
    this.described = described;
    this.#requests = requests;
  }

  get name(): string {
    return this.described.name;
  }

  get mimeType(): string {
    return this.described.mime_type;
  }

  get size(): number {
    return this.described.size;
  }

  /** A signed URL for a browser. It needs no key and expires. */
  get url(): string | null {
    return this.described.url ?? null;
  }

  /** Downloads the file into memory. `save` of `callsheet/node` writes it to a disk. */
  async blob(options: DownloadOptions = {}): Promise<Blob> {
    let pieces: Uint8Array<ArrayBuffer>[] = [];
    const sink = {
      restart: () => {
        pieces = [];
      },
      write: (piece: Uint8Array<ArrayBuffer>) => {
        pieces.push(piece);
      },
    };
    await this.into(sink, options);
    const blob = new Blob(pieces, { type: this.mimeType });
    check(this.described, await digestOf(await blob.arrayBuffer()));
    return blob;
  }

  /** Downloads the file piece by piece, without a look at its checksum. */
  async into(sink: Sink, options: DownloadOptions = {}): Promise<void> {
    await download(this.#requests, this.described, sink, options);
  }
}

export class JobHandle {
  /** The job as the control plane described it last. */
  now: Job;
  readonly #requests: Requests;

  constructor(now: Job, requests: Requests) {
    this.now = now;
    this.#requests = requests;
  }

  get id(): string {
    return this.now.id;
  }

  get status(): JobStatus {
    return this.now.status;
  }

  /** Reads the job again. */
  async refresh(signal?: AbortSignal): Promise<Job> {
    this.now = await this.#requests.ask<Job>("GET", `/api/ai-jobs/${this.id}`, undefined, { signal });
    return this.now;
  }

  /**
   * Waits until the job has completed. Throws JobNotCompleted if the job ended without a result, and NotEnded after
   * `timeoutSeconds`.
   */
  async wait({ onProgress, timeoutSeconds, signal }: WaitOptions = {}): Promise<this> {
    const limit = timeoutSeconds === undefined ? undefined : AbortSignal.timeout(timeoutSeconds * 1000);
    const ends = AbortSignal.any([signal, limit].filter((each) => each !== undefined));
    try {
      while (!hasEnded(this.status)) {
        for await (const item of this.stream({ signal: ends }))
          if (item.type === "progress") onProgress?.(item.progress);
        await this.refresh(ends);
      }
    } catch (error) {
      if (limit?.aborted && error === limit.reason)
        throw new NotEnded(`Job ${this.id} has not ended in time. It goes on.`);
      throw error;
    }
    if (this.status !== "completed") throw new JobNotCompleted(this.now);
    return this;
  }

  /**
   * Everything that the job reports until it has ended. If the connection is lost, it goes on at the last event; after
   * an item of the type `reset`, all events follow again.
   */
  stream(options: StreamOptions = {}): AsyncGenerator<StreamItem, void> {
    return streamOf(this.#requests, this.id, options);
  }

  /** Cancels the job. A job that has ended stays as it is. */
  async cancel(): Promise<Job> {
    try {
      const path = `/api/ai-jobs/${this.id}/cancel`;
      this.now = await this.#requests.ask<Job>("POST", path, undefined, { repeat: true });
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== "invalid_transition") throw error;
      // It had ended, or the response to an earlier attempt was lost.
      await this.refresh();
    }
    return this.now;
  }

  /** The files that a completed job made, the main file first. */
  get files(): ResultFile[] {
    return (this.now.outputs ?? []).map((each) => new ResultFile(each, this.#requests));
  }

  /** The main file of a completed job. */
  get file(): ResultFile {
    const [main] = this.files;
    if (main === undefined) throw new UnusableFile(`Job ${this.id} made no file. Its result is in job.now.result.`);
    return main;
  }
}
