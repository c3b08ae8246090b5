import { FileJson } from "lucide-react";
import { classes } from "@/design";
import { workflowsTexts } from "@/texts/workflows";

/** The whole page accepts files. This hint says so. */
export function DropHint({ isOver }: { isOver: boolean }) {
  return (
    <div
      className={classes(
        "mb-4 flex items-center gap-3 rounded-m border border-dashed border-line-strong px-4 py-3 text-s touch:hidden",
        isOver ? "border-accent bg-accent-soft" : "bg-hover/50",
      )}
    >
      <FileJson size={18} className="shrink-0 text-muted" aria-hidden />
      <p>
        <span className="font-[550]">{isOver ? workflowsTexts.dropNow : workflowsTexts.dropTitle}</span>{" "}
        <span className="text-muted">{workflowsTexts.dropText}</span>
      </p>
    </div>
  );
}
