import { X } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "@/design";
import { jobsTexts as texts } from "@/texts/jobs";

interface Props {
  /** How many jobs are selected. */
  count: string;
  onClear: () => void;
  children: ReactNode;
}

/** Actions for the selected jobs of a list. */
export function SelectionToolbar({ count, onClear, children }: Props) {
  return (
    <div className="pointer-events-none fixed inset-x-0 bottom-[calc(4.25rem+env(safe-area-inset-bottom))] z-20 flex justify-center px-3 md:bottom-6 md:left-56">
      <div
        role="toolbar"
        aria-label={texts.selectionBar}
        className="appear pointer-events-auto flex max-w-full flex-wrap items-center justify-center gap-1 rounded-m border bg-panel p-1.5 shadow-high"
      >
        <span className="num px-2.5 font-[550]" role="status">
          {count}
        </span>
        {children}
        <Button
          look="quiet"
          size="icon"
          aria-label={texts.clearSelection}
          onClick={onClear}
          icon={<X size={18} aria-hidden />}
        />
      </div>
    </div>
  );
}
