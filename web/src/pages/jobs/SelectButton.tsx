import { ListChecks, X } from "lucide-react";
import type { JobSummary } from "@/api/types";
import { Button } from "@/design";
import type { Selection } from "@/parts/useSelection";
import { jobsTexts } from "@/texts/jobs";

/** A row has no room for a box on a phone, and a finger does not hover: this shows the boxes. */
export function SelectButton({ selection }: { selection: Selection<JobSummary> }) {
  if (selection.isOn) {
    return (
      <>
        <Button onClick={selection.selectAll}>{jobsTexts.selectAll}</Button>
        {/* The bar of what is selected has the same. */}
        <Button look="quiet" className="max-lg:hidden" onClick={selection.clear} icon={<X size={16} aria-hidden />}>
          {jobsTexts.clearSelection}
        </Button>
      </>
    );
  }
  return (
    <Button look="quiet" onClick={selection.begin} icon={<ListChecks size={16} aria-hidden />}>
      {jobsTexts.begin}
    </Button>
  );
}
