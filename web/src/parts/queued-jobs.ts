// How many jobs wait, as far as the server counts them. Pure.
import type { Schemas } from "@/api/types";

type Queue = Pick<Schemas["WorkflowMetrics"], "queued" | "delayed">;

/** The server counts no further for a workflow: this number means as many or more. */
const MOST_COUNTED = 1000;

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Jobs of these workflows that wait, without those that are delayed: `12`, `1.2K`, or `1K+` if there may be more. */
export function queuedText(queues: readonly Queue[], sampled: number | null = null): string {
  const counted = queues.reduce((total, queue) => total + queue.queued, 0);
  if (!queues.some(isCutOff)) return compact.format(counted);
  return sampled !== null && sampled > counted ? compact.format(sampled) : `${compact.format(counted)}+`;
}

/** All jobs of a workflow that have not started. */
export function waitingText(queue: Queue): string {
  return `${compact.format(queue.queued + queue.delayed)}${isCutOff(queue) ? "+" : ""}`;
}

function isCutOff(queue: Queue): boolean {
  return queue.queued >= MOST_COUNTED;
}
