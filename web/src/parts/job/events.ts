// Describes the history of a job in words. Pure.
import type { JobEvent, JobStatus } from "@/api/types";
import type { Tone } from "@/design/Badge";
import { formatTokens } from "@/design/Tokens";
import { eventTexts, jobTexts } from "@/texts/job";

const TONES: Partial<Record<JobStatus, Tone>> = {
  completed: "ok",
  failed: "bad",
  expired: "bad",
  processing: "run",
  queued: "warn",
};

export function toneOf(event: JobEvent): Tone {
  return (event.event === "job.transition_denied" ? null : event.to_status && TONES[event.to_status]) || "plain";
}

export function titleOf(event: JobEvent): string {
  if (event.event === "job.transition_denied") return eventTexts.denied;
  if (event.event === "job.created" || !event.from_status) {
    const cost = event.data?.cost;
    return eventTexts.created(typeof cost === "number" && cost > 0 ? formatTokens(cost) : null);
  }
  if (event.to_status === "queued" && event.from_status === "processing") return eventTexts.requeued;
  return event.to_status ? eventTexts[event.to_status] : event.event;
}

/** The user or process that acted, if it is not the reader. */
export function actorOf(event: JobEvent): string | null {
  return event.actor === "admin" ? jobTexts.byOperator : null;
}

export interface TimelineLine {
  event: JobEvent;
  /** Time since the line before. */
  seconds: number | null;
}

export function linesOf(events: readonly JobEvent[]): TimelineLine[] {
  return events.map((event, index) => {
    const before = events[index - 1];
    return { event, seconds: before ? Math.max(0, (Date.parse(event.at) - Date.parse(before.at)) / 1000) : null };
  });
}
