import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { meQuery } from "@/api/queries";
import type { AllJobsSearch } from "@/parts/job/all-jobs-filters";
import { NewRowsButton } from "@/parts/NewRowsButton";
import { Pending } from "@/parts/Pending";
import { useSelection } from "@/parts/useSelection";
import { allJobsTexts } from "@/texts/all-jobs";
import { AllJobsList } from "./AllJobsList";
import { BulkBar } from "./BulkBar";
import { ErrorGroupPanel } from "./ErrorGroupPanel";
import { FilterBar } from "./FilterBar";
import { NoJobs } from "./NoJobs";
import { allJobsQuery } from "./queries";
import { RunningActions } from "./RunningActions";
import { useLiveJobs } from "./useLiveJobs";

export function JobsView({ search }: { search: AllJobsSearch }) {
  const query = useInfiniteQuery(allJobsQuery(search));
  const jobs = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  const [visible, setVisible] = useState<readonly string[]>([]);
  const live = useLiveJobs(search, visible);
  const selection = useSelection(jobs);
  const { data: me } = useQuery(meQuery);
  const mayChange = me?.role === "operator";
  return (
    <>
      <RunningActions />
      <FilterBar search={search} />
      {search.error && <ErrorGroupPanel fingerprint={search.error} />}
      {!query.data ? (
        <Pending query={query} className="h-96" />
      ) : (
        <div className="relative">
          <NewRowsButton count={live.fresh} label={allJobsTexts.newJobs(live.fresh)} onShow={live.showFresh} />
          {jobs.length === 0 && !query.hasNextPage ? (
            <NoJobs search={search} />
          ) : (
            <AllJobsList
              jobs={jobs}
              query={query}
              selection={selection}
              search={search}
              maySelect={mayChange}
              onVisible={setVisible}
            />
          )}
        </div>
      )}
      {mayChange && <BulkBar key={JSON.stringify(search)} search={search} selection={selection} />}
    </>
  );
}
