import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_NUMBER } from "@/api/cursors";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";

export type Run = Schemas["Run"];
export type Candidate = Schemas["Candidate"];
export type TreeNode = Schemas["TreeNode"];

// An active run changes with every job. Another run changes only if its user resumes it elsewhere.
const ACTIVE_MS = 2_500;
const QUIET_MS = 20_000;
const TREE_PAGE = 5000;
const GALLERY_PAGE = 60;
const WINNERS = 12;
const SPENDING_PARTS = 60;

export const runQuery = (id: string) =>
  queryOptions({
    queryKey: keys.run(id),
    queryFn: ({ signal }) => data(api.GET("/api/runs/{run_id}", { params: { path: { run_id: id } }, signal })),
    refetchInterval: ({ state }) =>
      state.data?.status === "active" || state.data?.steps.some((step) => step.in_flight > 0) ? ACTIVE_MS : QUIET_MS,
  });

/** All candidates after this number, parents before their children. */
export async function fetchTree(id: string, after: number, signal?: AbortSignal): Promise<TreeNode[]> {
  const nodes: TreeNode[] = [];
  for (let cursor = after; ; ) {
    const page = await data(
      api.GET("/api/runs/{run_id}/tree", {
        params: { path: { run_id: id }, query: { cursor, limit: TREE_PAGE } },
        signal,
      }),
    );
    nodes.push(...page.items);
    if (!page.next_cursor) return nodes;
    cursor = Number(page.next_cursor);
  }
}

export const treeQuery = (id: string) =>
  queryOptions({ queryKey: keys.runTree(id), queryFn: ({ signal }) => fetchTree(id, 0, signal), staleTime: 10_000 });

/** Candidates with their images, at most 100. */
export async function fetchCandidates(id: string, ids: readonly string[]): Promise<Candidate[]> {
  return (
    await data(
      api.GET("/api/runs/{run_id}/candidates", { params: { path: { run_id: id }, query: { candidate_id: [...ids] } } }),
    )
  ).items;
}

export interface GalleryFilter {
  step?: string;
  status?: Schemas["CandidateStatus"];
}

export const galleryQuery = (id: string, filter: GalleryFilter) =>
  infiniteQueryOptions({
    queryKey: [...keys.runCandidates(id), { ...filter }] as const,
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET("/api/runs/{run_id}/candidates", {
          params: { path: { run_id: id }, query: { ...filter, cursor: pageParam, limit: GALLERY_PAGE } },
          signal,
        }),
      ),
    ...BY_NUMBER,
    placeholderData: keepPreviousData,
  });

export const winnersQuery = (id: string) =>
  queryOptions({
    queryKey: keys.runWinners(id),
    queryFn: ({ signal }) =>
      data(
        api.GET("/api/runs/{run_id}/winners", { params: { path: { run_id: id }, query: { limit: WINNERS } }, signal }),
      ),
  });

export const gatesQuery = (id: string) =>
  queryOptions({
    queryKey: keys.runGates(id),
    queryFn: ({ signal }) => data(api.GET("/api/runs/{run_id}/gates", { params: { path: { run_id: id } }, signal })),
  });

export const spendingQuery = (id: string) =>
  queryOptions({
    queryKey: keys.runSpending(id),
    queryFn: ({ signal }) =>
      data(
        api.GET("/api/runs/{run_id}/spending", {
          params: { path: { run_id: id }, query: { parts: SPENDING_PARTS } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });

export const candidateQuery = (id: string) =>
  queryOptions({
    queryKey: keys.candidate(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/candidates/{candidate_id}", { params: { path: { candidate_id: id } }, signal })),
    staleTime: 5_000,
  });

export const lineageQuery = (id: string) =>
  queryOptions({
    queryKey: keys.lineage(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/candidates/{candidate_id}/lineage", { params: { path: { candidate_id: id } }, signal })),
    // The lineage never changes, but its URLs expire.
    staleTime: 5 * 60_000,
  });

/** Preview of a kill or a restore at this moment. It is never cached. */
export const branchQuery = (id: string) =>
  queryOptions({
    queryKey: keys.branch(id),
    queryFn: ({ signal }) =>
      data(api.GET("/api/candidates/{candidate_id}/branch", { params: { path: { candidate_id: id } }, signal })),
    staleTime: 0,
    gcTime: 0,
  });

export async function fetchPairs(id: string, step: string | undefined, limit: number): Promise<Schemas["Pairs"]> {
  return data(api.GET("/api/runs/{run_id}/pairs", { params: { path: { run_id: id }, query: { step, limit } } }));
}

export async function castVote(id: string, body: Schemas["CastVote"]): Promise<Schemas["Vote"]> {
  return data(api.POST("/api/runs/{run_id}/votes", { params: { path: { run_id: id } }, body }));
}

export async function undoVote(id: string, voteId: string): Promise<void> {
  await api.DELETE("/api/runs/{run_id}/votes/{vote_id}", { params: { path: { run_id: id, vote_id: voteId } } });
}

export function exportUrl(id: string, status?: Schemas["CandidateStatus"]): string {
  return `/api/runs/${encodeURIComponent(id)}/export${status ? `?status=${status}` : ""}`;
}
