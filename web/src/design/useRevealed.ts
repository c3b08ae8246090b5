import { type RefObject, useEffect, useRef } from "react";
import { reveal } from "./reveal";

/** For a row of entries that is wider than a narrow screen: the chosen one can be seen, also after the screen was turned or a
 * later value, such as a count, made the entries wider. */
export function useRevealed<List extends HTMLElement>(selector: string, chosen: unknown): RefObject<List | null> {
  const list = useRef<List>(null);
  useEffect(() => {
    const watch = new ResizeObserver(() => reveal(list.current, selector));
    for (const element of list.current ? [list.current, ...list.current.children] : []) watch.observe(element);
    return () => watch.disconnect();
  }, [selector, chosen]);
  return list;
}
