import { Hourglass } from "lucide-react";
import type { Schemas } from "@/api/types";

/** The reason why a job is not running yet, in the sentence of the API. */
export function WhyWaiting({ reason }: { reason: Schemas["WhyWaiting"] | null | undefined }) {
  if (!reason) return null;
  return (
    <p role="status" className="flex gap-2.5 rounded-s bg-warn-soft px-3 py-2 text-s text-warn">
      <Hourglass size={15} className="mt-0.5 shrink-0" aria-hidden />
      {reason.message}
    </p>
  );
}
