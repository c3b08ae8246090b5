import { Check } from "lucide-react";
import type { ComponentProps } from "react";

/** A checkbox. Its place is inside its label; elsewhere it needs an `aria-label`. */
export function Checkbox(props: Omit<ComponentProps<"input">, "type" | "className">) {
  return (
    // The input lies over its drawing, so that a page scrolls to where the focus is seen.
    <span className="relative grid size-4.5 shrink-0">
      <input type="checkbox" className="peer absolute inset-0 size-full cursor-[inherit] opacity-0" {...props} />
      <span
        aria-hidden
        className="pointer-events-none grid place-items-center rounded-[5px] border border-line-strong bg-panel text-transparent transition-colors duration-100 peer-checked:border-accent peer-checked:bg-accent peer-checked:text-accent-ink peer-focus-visible:outline-2 peer-focus-visible:outline-offset-2 peer-focus-visible:outline-accent"
      >
        <Check size={13} strokeWidth={3} />
      </span>
    </span>
  );
}
