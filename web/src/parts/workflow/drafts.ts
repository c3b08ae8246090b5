// Changes that are not saved, by workflow: they outlast a look at another page of this tab.
import type { Draft } from "./draft";

export interface Edit {
  /** What was changed, and the version that this is. */
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
