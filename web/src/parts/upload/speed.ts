// Speed of an upload over the last seconds. Pure: the clock is a parameter.
const WINDOW_MS = 4_000;

export class Speed {
  #samples: { at: number; loaded: number }[] = [];

  /** Bytes per second; null until it is known. */
  add(loaded: number, at: number): number | null {
    this.#samples.push({ at, loaded });
    while (this.#samples.length > 2 && at - this.#samples[0]!.at > WINDOW_MS) this.#samples.shift();
    const first = this.#samples[0]!;
    const passed = at - first.at;
    return passed < 250 ? null : ((loaded - first.loaded) / passed) * 1000;
  }
}
