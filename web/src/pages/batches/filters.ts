// Filters of the list of batches, in the form of the URL. Pure.
import { matching, oneOf, text } from "@/parts/search-params";

export const BATCH_STATUSES = ["running", "finished"] as const;

export interface BatchesSearch {
  status?: (typeof BATCH_STATUSES)[number];
  /** Slug of an effect. */
  effect?: string;
  /** The reference that a client gave. */
  reference?: string;
}

export function readSearch(search: Record<string, unknown>): BatchesSearch {
  return {
    status: oneOf(search.status, BATCH_STATUSES),
    effect: matching(search.effect, /^[a-z0-9][a-z0-9_-]{0,62}$/),
    reference: text(search.reference),
  };
}

export function isFiltered(search: BatchesSearch): boolean {
  return Object.values(search).some((value) => value !== undefined);
}
