import { useEffect } from "react";
import type { AllJobsSearch } from "@/parts/job/all-jobs-filters";
import { useJobRows, VirtualJobList } from "@/parts/job/VirtualJobList";
import type { Selection } from "@/parts/useSelection";
import type { Pages } from "@/parts/useVirtualRows";
import { allJobsTexts } from "@/texts/all-jobs";
import { AllJobsRow, GRID, rowHeight } from "./AllJobsRow";
import type { OperatedJob } from "./actions";
import { useIsNarrow } from "./useIsNarrow";

interface Props {
  jobs: readonly OperatedJob[];
  query: Pages;
  selection: Selection<OperatedJob>;
  search: AllJobsSearch;
  maySelect: boolean;
  /** Receives the ids of the visible rows after a change. */
  onVisible: (ids: readonly string[]) => void;
}
const MAX_VISIBLE = 60;

export function AllJobsList({ jobs, query, selection, search, maySelect, onVisible }: Props) {
  const height = rowHeight(useIsNarrow());
  const virtual = useJobRows(jobs, query, height);
  const seen = virtual.rows
    .slice(0, MAX_VISIBLE)
    .map((row) => jobs[row.index]?.id ?? "")
    .join(" ");
  useEffect(() => {
    // While the user scrolls, the page requests nothing.
    const timer = setTimeout(() => onVisible(seen === "" ? [] : seen.split(" ")), 300);
    return () => clearTimeout(timer);
  }, [seen, onVisible]);
  return (
    <>
      <div
        aria-hidden
        className={`${GRID} px-4 pb-2 text-s font-medium text-muted max-lg:hidden ${maySelect ? "pl-12" : ""}`}
      >
        <span>{allJobsTexts.columns.job}</span>
        <span>{allJobsTexts.columns.owner}</span>
        <span className="max-xl:hidden">{allJobsTexts.columns.workflow}</span>
        <span className="text-right max-xl:hidden">{allJobsTexts.columns.cost}</span>
        <span className="text-right">{allJobsTexts.columns.time}</span>
      </div>
      <VirtualJobList jobs={jobs} virtual={virtual} searching={allJobsTexts.lookingFurther}>
        {(job, place) => (
          <AllJobsRow
            key={job.id}
            job={job}
            {...place}
            height={height}
            search={search}
            isSelected={selection.ids.has(job.id)}
            onToggle={maySelect ? selection.toggle : null}
          />
        )}
      </VirtualJobList>
    </>
  );
}
