// Queries of the catalog, for the pages of workflows, effects and assets.
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import type { ApiGraph } from "./draft";
import { parseExact } from "./exact";

export type EffectRecord = Schemas["EffectRecord"];
export type Asset = Schemas["Asset"];
export type Fleet = Schemas["Fleet"];
export type WorkflowDetail = Schemas["WorkflowDetail"];
export type WorkflowProposal = Schemas["WorkflowProposal"];

const PER_PAGE = 200;
const MAX_PAGES = 5;

/** The body of a call with `parseAs: "text"`, with numbers as they were written. */
export async function exactly<Value>(call: Promise<{ data?: unknown }>): Promise<Value> {
  return parseExact(String((await call).data)) as Value;
}

export const workflowQuery = (slug: string) =>
  queryOptions({
    queryKey: keys.workflow(slug),
    queryFn: ({ signal }) =>
      exactly<WorkflowDetail>(
        api.GET("/api/admin/workflows/{workflow}", { params: { path: { workflow: slug } }, parseAs: "text", signal }),
      ),
  });

export function propose(graph: ApiGraph, signal?: AbortSignal): Promise<WorkflowProposal> {
  return exactly<WorkflowProposal>(
    api.POST("/api/admin/workflows/proposals", {
      body: { graph: graph as never, everything: false },
      parseAs: "text",
      signal,
    }),
  );
}

// A graph may have a megabyte, which is too long for a query key.
const numbers = new WeakMap<object, number>();
let last = 0;

function numberOf(graph: object): number {
  const found = numbers.get(graph);
  if (found !== undefined) return found;
  last += 1;
  numbers.set(graph, last);
  return last;
}

/** Inputs that can become properties, and nodes that make files. */
export const proposalQuery = (graph: ApiGraph | null, isOn: boolean) =>
  queryOptions({
    queryKey: keys.proposal(graph === null ? 0 : numberOf(graph)),
    queryFn: ({ signal }) => propose(graph ?? {}, signal),
    enabled: graph !== null && isOn,
    staleTime: Infinity,
    retry: false,
    placeholderData: keepPreviousData,
  });

async function everyPage<Item>(
  get: (cursor: string | undefined) => Promise<{ items: Item[]; next_cursor?: string | null }>,
): Promise<Item[]> {
  const found: Item[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const { items, next_cursor } = await get(cursor);
    found.push(...items);
    if (!next_cursor) break;
    cursor = next_cursor;
  }
  return found;
}

/** All effects, or those of a workflow. */
export const effectRecordsQuery = (workflow?: string) =>
  queryOptions({
    queryKey: keys.effectRecords(workflow),
    queryFn: ({ signal }): Promise<EffectRecord[]> =>
      everyPage((cursor) =>
        data(api.GET("/api/admin/effects", { params: { query: { workflow, cursor, limit: PER_PAGE } }, signal })),
      ),
  });

export const effectRecordQuery = (slug: string) =>
  queryOptions({
    queryKey: keys.effectRecord(slug),
    queryFn: ({ signal }): Promise<EffectRecord> =>
      data(api.GET("/api/admin/effects/{effect}", { params: { path: { effect: slug } }, signal })),
  });

/** Choices for a value. */
export const assetChoicesQuery = queryOptions({
  queryKey: keys.assetChoices,
  queryFn: ({ signal }): Promise<Asset[]> =>
    everyPage((cursor) =>
      data(api.GET("/api/admin/assets", { params: { query: { status: "ready", cursor, limit: PER_PAGE } }, signal })),
    ),
});

export const fleetChoicesQuery = queryOptions({
  queryKey: keys.fleetChoices,
  queryFn: ({ signal }): Promise<Fleet[]> =>
    everyPage((cursor) =>
      data(
        api.GET("/api/admin/fleets", {
          params: { query: { cursor: cursor === undefined ? undefined : Number(cursor), limit: PER_PAGE } },
          signal,
        }),
      ),
    ),
});

const everyWorkflow = (signal: AbortSignal) =>
  everyPage((cursor) =>
    data(
      api.GET("/api/admin/workflows", {
        params: { query: { cursor: cursor === undefined ? undefined : Number(cursor), limit: PER_PAGE } },
        signal,
      }),
    ),
  );

/** Every workflow that a fleet can serve, by slug, including those of tasks. */
export const assignableWorkflowsQuery = queryOptions({
  queryKey: keys.workflows("assignable"),
  queryFn: async ({ signal }) => (await everyWorkflow(signal)).sort((one, other) => one.slug.localeCompare(other.slug)),
});

/** Workflows with a graph, by name. */
export const workflowChoicesQuery = queryOptions({
  queryKey: keys.workflows("choices"),
  queryFn: async ({ signal }) =>
    (await everyWorkflow(signal))
      .filter((each) => each.comfyui_workflow_path != null)
      .sort((one, other) => one.name.localeCompare(other.name)),
});
