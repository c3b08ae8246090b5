// The four stages of an unfinished job, from the response of the API. Pure: the clock is a parameter.
import type { Job } from "@/api/types";

export type StageName = "queued" | "preparing" | "rendering" | "saving";
export interface Stage {
  name: StageName;
  state: "done" | "now" | "next";
  /** Duration of the stage so far; null if it is unknown. */
  seconds: number | null;
}
type Watched = Pick<Job, "status" | "submitted_at" | "started_at" | "progress">;

const ORDER: readonly StageName[] = ["queued", "preparing", "rendering", "saving"];
// A worker reports this step while it uploads the results.
const UPLOADING = "Uploading the result";

export function stageOf(job: Pick<Job, "status" | "progress">): StageName {
  if (job.status !== "processing") return "queued";
  const progress = job.progress;
  if (!progress || (progress.percent == null && !progress.message)) return "preparing";
  return progress.message === UPLOADING ? "saving" : "rendering";
}

export function stagesOf(job: Watched, now: number): Stage[] {
  const current = ORDER.indexOf(stageOf(job));
  const submitted = Date.parse(job.submitted_at);
  const started = job.started_at ? Date.parse(job.started_at) : null;
  const reportedAt = job.progress ? Date.parse(job.progress.updated_at) : null;
  const ran = job.progress?.elapsed_ms ?? null;
  const startedAt = reportedAt !== null && ran !== null ? reportedAt - ran : null;
  // Start of each stage. The last one has no end yet.
  const starts = [submitted, started, startedAt, current === 3 ? reportedAt : null, null];
  return ORDER.map((name, index) => {
    if (index > current) return { name, state: "next", seconds: null };
    const from = starts[index] ?? null;
    const to = index === current ? now : (starts[index + 1] ?? null);
    const seconds = from === null || to === null ? null : Math.max(0, (to - from) / 1000);
    return { name, state: index === current ? "now" : "done", seconds };
  });
}

export interface Step {
  node: string;
  step: string | null;
  steps: string | null;
}

/** Splits the engine's `KSampler 12/20`. */
export function stepOf(message: string): Step {
  const found = /^(.*\S)\s+(\d+(?:\.\d+)?)\/(\d+(?:\.\d+)?)$/.exec(message);
  return found
    ? { node: spaced(found[1] ?? ""), step: found[2] ?? null, steps: found[3] ?? null }
    : { node: spaced(message), step: null, steps: null };
}

/** `LightboxTextToImage` in words. Sentences stay unchanged. */
function spaced(name: string): string {
  if (!/^[A-Za-z0-9]+$/.test(name)) return name;
  return name.replace(/^Lightbox(?=[A-Z])/, "").replace(/([a-z0-9])([A-Z])/g, "$1 $2");
}

/** `about 22 s` counts down between two responses. */
export function secondsLeft(job: Pick<Job, "eta_seconds">, estimatedAt: number, now: number): number | null {
  if (job.eta_seconds == null) return null;
  return Math.max(0, job.eta_seconds - (now - estimatedAt) / 1000);
}

/** Formats 22 s, 3 min, 1 h 20 min, without false precision. */
export function roughly(seconds: number): string {
  if (seconds < 10) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 60) return `${Math.round(seconds / 5) * 5} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return minutes % 60 === 0 ? `${minutes / 60} h` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
