import { ListChecks, X } from "lucide-react";
import type { JobSummary } from "@/api/types";
import { Button } from "@/design";
import type { Selection } from "@/parts/useSelection";
import { jobsTexts } from "@/texts/jobs";

/** A row on a phone has no room for a box, and touch screens have no hover. This button shows the boxes. */
export function SelectButton({ selection }: { selection: Selection<JobSummary> }) {
  if (selection.isOn) {
    return (
      <>
        <Button onClick={selection.selectAll}>{jobsTexts.selectAll}</Button>
        {/* The selection bar has the same button. */}
        <Button look="quiet" className="max-lg:hidden" onClick={selection.clear} icon={<X size={16} aria-hidden />}>
          {jobsTexts.clearSelection}
        </Button>
      </>
    );
  }
  return (
    <Button look="quiet" onClick={selection.start} icon={<ListChecks size={16} aria-hidden />}>
      {jobsTexts.begin}
    </Button>
  );
}
