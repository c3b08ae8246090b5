// Unsaved changes by workflow. They survive visits to other pages of this tab.
import type { Draft } from "./draft";

export interface Edit {
  /** The changes, and the version that they belong to. */
  base: Draft;
  version: number | null;
  draft: Draft;
}

const kept = new Map<string, Edit>();

export function keptDraft(slug: string): Edit | null {
  return kept.get(slug) ?? null;
}

export function keepDraft(slug: string, edit: Edit | null): void {
  if (edit === null) kept.delete(slug);
  else kept.set(slug, edit);
}
