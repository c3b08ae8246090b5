import { type KeyboardEvent, useCallback } from "react";

/** The arrow keys move between cards. Tab moves through them too. */
export function useGridKeys() {
  return useCallback((event: KeyboardEvent<HTMLElement>) => {
    const cards = [...event.currentTarget.querySelectorAll<HTMLElement>("[data-card]")];
    const at = cards.indexOf(document.activeElement as HTMLElement);
    if (at < 0 || event.metaKey || event.ctrlKey || event.altKey) return;
    const columns = Math.max(1, cards.filter((card) => card.offsetTop === cards[0]?.offsetTop).length);
    const next = nextIndex(event.key, at, cards.length, columns);
    if (next === null) return;
    event.preventDefault();
    cards[next]?.focus();
  }, []);
}

/** null if the key moves nothing. */
export function nextIndex(key: string, at: number, count: number, columns: number): number | null {
  const steps: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  const target = key === "Home" ? 0 : key === "End" ? count - 1 : key in steps ? at + steps[key]! : -1;
  return target >= 0 && target < count ? target : null;
}
