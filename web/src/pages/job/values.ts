// What a user set when they submitted a job, in words. Pure.
import type { Schemas } from "@/api/types";
import { labelOf } from "@/parts/job/answers";

const LONGEST = 120;
const FILE_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The prompt is shown by itself, and files by what they look like. */
export function valuesOf(
  payload: Record<string, unknown> | null | undefined,
  properties: readonly Pick<Schemas["EffectProperty"], "key" | "label">[] | undefined,
  prompt: string | null | undefined,
): { name: string; text: string }[] {
  return Object.entries(payload ?? {}).flatMap(([key, value]) => {
    if (value === null || value === "" || typeof value === "object") return [];
    const text = String(value);
    if (prompt?.startsWith(text.slice(0, LONGEST)) || FILE_ID.test(text)) return [];
    const label = properties?.find((each) => each.key === key)?.label;
    // A property without a label of its own is called by its key.
    return [
      {
        name: label && label !== key ? label : labelOf(key),
        text: text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text,
      },
    ];
  });
}
