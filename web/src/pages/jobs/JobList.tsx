import type { JobSummary } from "@/api/types";
import { useJobRows, VirtualJobList } from "@/parts/job/VirtualJobList";
import type { Selection } from "@/parts/useSelection";
import type { Pages } from "@/parts/useVirtualRows";
import { JobRow, ROW_HEIGHT } from "./JobRow";
import { useListKeys } from "./useListKeys";

interface Props {
  jobs: readonly JobSummary[];
  query: Pages;
  selection: Selection<JobSummary>;
}

export function JobList({ jobs, query, selection }: Props) {
  const virtual = useJobRows(jobs, query, ROW_HEIGHT);
  useListKeys({
    jobs,
    list: virtual.list,
    scrollTo: virtual.scrollTo,
    onToggle: selection.toggle,
    onClear: selection.clear,
  });
  return (
    <VirtualJobList jobs={jobs} virtual={virtual}>
      {(job, place) => (
        <JobRow
          key={job.id}
          job={job}
          {...place}
          isSelected={selection.ids.has(job.id)}
          isSelecting={selection.isOn}
          onToggle={selection.toggle}
        />
      )}
    </VirtualJobList>
  );
}
