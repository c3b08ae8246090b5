// Actors, and the payloads of the things that they can make. Pure.
import type { Schemas } from "@/api/types";
import { taskTexts } from "@/texts/tasks";
import type { Json, Schema } from "./form/schema";
import { titled } from "./form/values";

export type Actor = Schemas["ActorInfo"];
export type Variant = Schemas["ActorVariant"];
export type Payload = { [name: string]: Json };

/**
 * The requested form by title, otherwise the form of this payload, otherwise the first form that needs only a prompt.
 */
export function variantOf(actor: Actor, title: string | undefined, payload: Payload | null): Variant | null {
  const variants = actor.variants ?? [];
  const isOf = (variant: Variant) =>
    payload !== null && Object.entries(variant.values).every(([name, value]) => payload[name] === value);
  return (
    variants.find((each) => each.title === title) ??
    variants.find(isOf) ??
    variants.find((each) => !needsParameters(each)) ??
    variants[0] ??
    null
  );
}

function needsParameters(variant: Variant): boolean {
  const parameters = (variant.payload_schema as Schema).properties?.params;
  return (parameters?.required ?? []).length > 0;
}

/** Schema of the payload; null if it is unknown, and the user writes the payload as JSON. */
export function schemaOf(actor: Actor, variant: Variant | null): Schema | null {
  const schema = (variant?.payload_schema ?? actor.payload_schema) as Schema;
  return Object.keys(schema.properties ?? {}).length > 0 ? schema : null;
}

/** "lightbox: txt2img" becomes "Text to image · Lightbox". */
export function variantLabel(title: string): string {
  const [provider = "", action = ""] = title.split(": ");
  return [taskTexts.actions[action] ?? titled(action), taskTexts.providers[provider] ?? titled(provider)]
    .filter(Boolean)
    .join(" · ");
}
