// Names the values that the user set for a job. Pure.
import type { Schemas } from "@/api/types";
import { labelOf } from "@/parts/job/results";

const MAX_LENGTH = 120;
const FILE_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The page shows the prompt separately, and files as thumbnails. */
export function valuesOf(
  payload: Record<string, unknown> | null | undefined,
  properties: readonly Pick<Schemas["EffectProperty"], "key" | "label">[] | undefined,
  prompt: string | null | undefined,
): { name: string; text: string }[] {
  return Object.entries(payload ?? {}).flatMap(([key, value]) => {
    if (value === null || value === "" || typeof value === "object") return [];
    const text = String(value);
    if (prompt?.startsWith(text.slice(0, MAX_LENGTH)) || FILE_ID.test(text)) return [];
    const label = properties?.find((each) => each.key === key)?.label;
    // A property without a label is shown with its key.
    return [
      {
        name: label && label !== key ? label : labelOf(key),
        text: text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text,
      },
    ];
  });
}
