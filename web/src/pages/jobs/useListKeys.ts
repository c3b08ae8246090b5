// Keyboard: J and K move through the list, X selects, Escape clears, / searches. Enter opens, because a link has the
// focus.
import { type RefObject, useEffect, useRef } from "react";
import type { JobSummary } from "@/api/types";

interface Options {
  jobs: readonly JobSummary[];
  list: RefObject<HTMLElement | null>;
  scrollTo: (index: number) => void;
  onToggle: (id: string) => void;
  onClear: () => void;
}

export function useListKeys(options: Options): void {
  const latest = useRef(options);
  latest.current = options;
  // Index that gets the focus next. The next key may be pressed before the row exists.
  const coming = useRef<number | null>(null);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented || isElsewhere(event.target)) return;
      const { jobs, onToggle, onClear } = latest.current;
      const at = coming.current ?? focusedIndex();
      switch (event.key) {
        case "j":
          return focus(Math.min(jobs.length - 1, at + 1), event);
        case "k":
          return focus(Math.max(0, at - 1), event);
        case "x": {
          const job = jobs[at];
          if (job !== undefined) onToggle(job.id);
          return;
        }
        case "Escape":
          return onClear();
        case "/":
          event.preventDefault();
          document.querySelector<HTMLInputElement>("[data-search]")?.focus();
      }
    };
    const focus = (index: number, event: KeyboardEvent) => {
      if (latest.current.jobs.length === 0) return;
      event.preventDefault();
      coming.current = index;
      latest.current.scrollTo(index);
      // The row may be rendered only after the scrolling.
      requestAnimationFrame(() =>
        requestAnimationFrame(() => {
          if (coming.current !== index) return;
          coming.current = null;
          latest.current.list.current
            ?.querySelector<HTMLElement>(`[data-index="${index}"] a`)
            ?.focus({ preventScroll: true });
        }),
      );
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
}

function focusedIndex(): number {
  const row = document.activeElement?.closest<HTMLElement>("[data-index]");
  return row ? Number(row.dataset.index) : -1;
}

function isElsewhere(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable ||
      target.closest(
        "input:not([type=checkbox]), textarea, select, [role=dialog], [role=menu], [role=listbox], [role=slider]",
      ) !== null)
  );
}
