// How a batch ended, in words. Pure.
import type { Schemas } from "@/api/types";
import type { Tone } from "@/design/Badge";
import { batchesTexts } from "@/texts/batches";

type Batch = Pick<Schemas["Batch"], "status" | "items" | "counts">;

export function outcomeOf({ status, items, counts }: Batch): { tone: Tone; word: string } {
  const { failed, expired, canceled, completed } = counts;
  if (status === "running") return { tone: "run", word: batchesTexts.statuses.running };
  if (failed + expired > 0) return { tone: "bad", word: batchesTexts.failed(failed + expired) };
  if (canceled === items) return { tone: "plain", word: batchesTexts.canceled };
  if (completed < items) return { tone: "warn", word: batchesTexts.canceledSome(canceled) };
  return { tone: "ok", word: batchesTexts.completed };
}

/** The items that have ended without a result while others still run. */
export function endsOf({ status, counts }: Batch): string {
  const { failed, expired, canceled } = counts;
  if (status !== "running") return "";
  const parts = [
    failed + expired > 0 && batchesTexts.failed(failed + expired),
    canceled > 0 && batchesTexts.canceledSome(canceled),
  ];
  return parts.filter(Boolean).join(", ");
}
