import { type RefObject, useEffect, useRef } from "react";
import { reveal } from "./reveal";

/**
 * Keeps the selected entry of a wide row visible on a narrow screen. It also handles a turned screen and values that
 * arrive later, such as counts.
 */
export function useRevealed<List extends HTMLElement>(selector: string, chosen: unknown): RefObject<List | null> {
  const list = useRef<List>(null);
  useEffect(() => {
    const watch = new ResizeObserver(() => reveal(list.current, selector));
    for (const element of list.current ? [list.current, ...list.current.children] : []) watch.observe(element);
    return () => watch.disconnect();
  }, [selector, chosen]);
  return list;
}
