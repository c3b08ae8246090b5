import { useInfiniteQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { PageHead } from "@/design";
import { libraryQuery } from "@/parts/job/library";
import { useLiveList } from "@/parts/job/useLiveList";
import { LinkButton } from "@/parts/LinkButton";
import { NewRowsButton } from "@/parts/NewRowsButton";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { useSelection } from "@/parts/useSelection";
import { useTitle } from "@/parts/useTitle";
import { jobsTexts } from "@/texts/jobs";
import { FilterBar } from "./FilterBar";
import { JobList } from "./JobList";
import { JobsEmpty } from "./JobsEmpty";
import { ListSkeleton } from "./ListSkeleton";
import { SelectButton } from "./SelectButton";
import { SelectionBar } from "./SelectionBar";

export function JobsPage() {
  useTitle(jobsTexts.title);
  const search = useSearch({ from: "/framed/jobs" });
  const query = useInfiniteQuery(libraryQuery(search));
  const live = useLiveList(search);
  const jobs = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  const selection = useSelection(jobs);
  return (
    <>
      <PageHead
        isTight
        title={jobsTexts.title}
        text={jobsTexts.text}
        actions={
          <>
            <LinkButton to="/batches" className="md:hidden">
              {jobsTexts.batches}
            </LinkButton>
            {jobs.length > 0 && <SelectButton selection={selection} />}
          </>
        }
      />
      <FilterBar search={search} />
      {query.isError && jobs.length === 0 ? (
        <ProblemPanel error={query.error} onRetry={() => void query.refetch()} />
      ) : query.isPending ? (
        <ListSkeleton />
      ) : (
        <div className="relative">
          <NewRowsButton count={live.fresh} label={jobsTexts.newJobs(live.fresh)} onShow={live.showFresh} />
          {jobs.length === 0 && !query.hasNextPage ? (
            <JobsEmpty search={search} />
          ) : (
            <JobList jobs={jobs} query={query} selection={selection} />
          )}
        </div>
      )}
      <SelectionBar selection={selection} />
    </>
  );
}
