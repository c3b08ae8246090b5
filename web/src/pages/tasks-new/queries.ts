import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import type { Json, Schema } from "@/parts/form/schema";

export type Actor = Schemas["ActorInfo"];
export type Variant = Schemas["ActorVariant"];
export type Payload = { [name: string]: Json };

export const actorsQuery = queryOptions({
  queryKey: keys.actors,
  queryFn: ({ signal }) => data(api.GET("/api/actors", { signal })),
  staleTime: 60_000,
});

/** The one that is asked for by title, the one that such a payload is of, or the first that needs nothing but a prompt. */
export function variantOf(actor: Actor, title: string | undefined, payload: Payload | null): Variant | null {
  const variants = actor.variants ?? [];
  const isOf = (variant: Variant) => payload !== null && Object.entries(variant.values).every(([name, value]) => payload[name] === value);
  return variants.find((each) => each.title === title) ?? variants.find(isOf) ?? variants.find((each) => !needsParameters(each)) ?? variants[0] ?? null;
}

function needsParameters(variant: Variant): boolean {
  const parameters = (variant.payload_schema as Schema).properties?.["params"];
  return (parameters?.required ?? []).length > 0;
}

/** What it takes; null where it does not say, and its payload is written as JSON. */
export function schemaOf(actor: Actor, variant: Variant | null): Schema | null {
  const schema = (variant?.payload_schema ?? actor.payload_schema) as Schema;
  return Object.keys(schema.properties ?? {}).length > 0 ? schema : null;
}

/** What an earlier task was sent, by the id of its job. */
export const sentQuery = (jobId: string) =>
  queryOptions({
    queryKey: ["tasks", "sent", jobId],
    queryFn: async ({ signal }) => {
      const task = await data(api.GET("/api/task/{task_id}", { params: { path: { task_id: `tq_${jobId.replaceAll("-", "")}` } }, signal }));
      return { actor: task.actor, payload: (task.payload ?? {}) as Payload };
    },
    staleTime: Infinity,
    retry: false,
  });
