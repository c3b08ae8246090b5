// Changes that are not saved, by workflow: they outlast a look at another page of this tab.
import type { Draft } from "./draft";

const kept = new Map<string, Draft>();

export function keptDraft(slug: string): Draft | null {
  return kept.get(slug) ?? null;
}

export function keepDraft(slug: string, draft: Draft | null): void {
  if (draft === null) kept.delete(slug);
  else kept.set(slug, draft);
}
