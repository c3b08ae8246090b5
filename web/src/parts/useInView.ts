import { type RefObject, useEffect, useState } from "react";

const coarse = window.matchMedia("(pointer: coarse)");

/** Whether most of the element is in the middle of the window, for touch screens without hover. */
export function useInView(ref: RefObject<HTMLElement | null>): boolean {
  const [isInView, setInView] = useState(false);
  useEffect(() => {
    const element = ref.current;
    if (element === null || !coarse.matches || window.matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const observer = new IntersectionObserver(([entry]) => setInView(entry?.isIntersecting ?? false), {
      threshold: 0.8,
      rootMargin: "-15% 0px",
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [ref]);
  return isInView;
}
