// Images of the nearby nodes: requested in batches, kept while in use, oldest dropped first.
import { thumbOf } from "@/parts/CandidateThumb";
import { fetchCandidates } from "../queries";

const MAX_KEPT = 800;
const BATCH = 100;
const GATHER_MS = 80;
// The server makes a thumbnail a moment after its candidate.
const AGAIN_MS = 4_000;
const MAX_TRIES = 5;

interface Entry {
  image: HTMLImageElement | null;
  tries: number;
  /** Time of the next attempt. */
  notBefore: number;
}

export class NodeImages {
  private readonly entries = new Map<string, Entry>();
  private wanted = new Set<string>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** `changed` runs when an image is ready to draw. */
  constructor(
    private readonly runId: string,
    private readonly changed: () => void,
  ) {}

  get(id: string): HTMLImageElement | null {
    return this.entries.get(id)?.image ?? null;
  }

  want(ids: readonly string[]): void {
    const now = Date.now();
    for (const id of ids) {
      const entry = this.entries.get(id);
      if (entry?.image || (entry && (entry.tries >= MAX_TRIES || entry.notBefore > now))) continue;
      this.wanted.add(id);
    }
    if (this.wanted.size > 0 && this.timer === undefined) this.timer = setTimeout(() => void this.load(), GATHER_MS);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.wanted.clear();
  }

  private async load(): Promise<void> {
    this.timer = undefined;
    const ids = [...this.wanted].slice(0, BATCH);
    this.wanted = new Set([...this.wanted].slice(BATCH));
    for (const id of ids)
      this.entries.set(id, {
        image: null,
        tries: (this.entries.get(id)?.tries ?? 0) + 1,
        notBefore: Date.now() + AGAIN_MS,
      });
    this.forgetOldest();
    // A failed image is requested again at the next drawing.
    const found = await fetchCandidates(this.runId, ids).catch(() => []);
    for (const candidate of found) {
      const url = thumbOf(candidate);
      if (url) this.decode(candidate.id, url);
    }
    if (this.wanted.size > 0 && this.timer === undefined) this.timer = setTimeout(() => void this.load(), GATHER_MS);
  }

  private decode(id: string, url: string): void {
    const image = new Image();
    image.decoding = "async";
    image.onload = () => {
      const entry = this.entries.get(id);
      if (entry) entry.image = image;
      this.changed();
    };
    image.src = url;
  }

  private forgetOldest(): void {
    for (const id of this.entries.keys()) {
      if (this.entries.size <= MAX_KEPT) return;
      this.entries.delete(id);
    }
  }
}
