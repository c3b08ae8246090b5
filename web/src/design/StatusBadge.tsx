import type { JobStatus } from "@/api/types";
import { statusTexts } from "@/texts/states";
import { Badge, type Tone } from "./Badge";

const TONES: Record<JobStatus, Tone> = {
  pending: "warn",
  queued: "warn",
  processing: "run",
  completed: "ok",
  failed: "bad",
  expired: "bad",
  canceled: "plain",
};

export function StatusBadge({ status }: { status: JobStatus }) {
  return <Badge tone={TONES[status]}>{statusTexts[status]}</Badge>;
}
