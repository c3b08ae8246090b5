import { queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import type { Json, Schema } from "@/parts/form/schema";

export type Actor = Schemas["ActorInfo"];

export const actorsQuery = queryOptions({
  queryKey: keys.actors,
  queryFn: ({ signal }) => data(api.GET("/api/actors", { signal })),
  staleTime: 60_000,
});

/** What an actor takes; null where it does not say, and its payload is written as JSON. */
export function schemaOf(actor: Actor): Schema | null {
  const schema = (actor as { input_schema?: Schema | null }).input_schema;
  return schema && Object.keys(schema.properties ?? {}).length > 0 ? schema : null;
}

/** What an earlier task was sent, by the id of its job. */
export const sentQuery = (jobId: string) =>
  queryOptions({
    queryKey: ["tasks", "sent", jobId],
    queryFn: async ({ signal }) => {
      const task = await data(api.GET("/api/task/{task_id}", { params: { path: { task_id: `tq_${jobId.replaceAll("-", "")}` } }, signal }));
      return { actor: task.actor, payload: (task.payload ?? {}) as { [name: string]: Json } };
    },
    staleTime: Infinity,
    retry: false,
  });
