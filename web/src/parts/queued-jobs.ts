// Number of waiting jobs, within the limit of the server's count. Pure.
import type { Schemas } from "@/api/types";

type Queue = Pick<Schemas["WorkflowMetrics"], "queued" | "delayed">;

/** The server stops counting a workflow here, so this number means as many or more. */
const MAX_COUNTED = 1000;

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Waiting jobs of these workflows without delayed ones: `12`, `1.2K`, or `1K+` if there may be more. */
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
  return queue.queued >= MAX_COUNTED;
}
