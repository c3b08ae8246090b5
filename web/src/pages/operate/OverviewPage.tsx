import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { PageHead, Segments, Select, Skeleton } from "@/design";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { useTitle } from "@/parts/useTitle";
import { operateTexts } from "@/texts/operate";
import { AlertList } from "./AlertList";
import { Charts } from "./Charts";
import { Figures } from "./Figures";
import { metricsQuery, statisticsQuery } from "./queries";
import { RANGES } from "./route";
import { WorkflowTable } from "./WorkflowTable";

const ALL = "*";

export function OverviewPage() {
  useTitle(operateTexts.title);
  const { range = "1h", workflow } = useSearch({ from: "/framed/operator/operate" });
  const navigate = useNavigate({ from: "/operate" });
  const statistics = useQuery(statisticsQuery(range, workflow));
  // The same query where the range is an hour.
  const recent = useQuery(statisticsQuery("1h", workflow));
  const metrics = useQuery(metricsQuery);
  const failed = [statistics, recent].find((query) => query.isError && !query.data);
  const choices = [{ value: ALL, label: operateTexts.allWorkflows }, ...(metrics.data?.workflows ?? []).map((each) => ({ value: each.workflow, label: each.workflow }))];
  return (
    <>
      <PageHead
        title={operateTexts.title}
        text={operateTexts.rangeTexts[range]}
        actions={
          <>
            <Select
              label={operateTexts.workflow}
              className="w-56 max-sm:w-48"
              value={workflow ?? ALL}
              choices={choices}
              onChange={(chosen) => void navigate({ search: (before) => ({ ...before, workflow: chosen === ALL ? undefined : chosen }), replace: true })}
            />
            <Segments
              label={operateTexts.rangeLabel}
              value={range}
              choices={RANGES.map((value) => ({ value, label: operateTexts.ranges[value] }))}
              onChange={(chosen) => void navigate({ search: (before) => ({ ...before, range: chosen }), replace: true })}
            />
          </>
        }
      />
      <AlertList />
      {failed ? (
        <ProblemPanel error={failed.error} onRetry={() => void failed.refetch()} />
      ) : statistics.data && recent.data && metrics.data ? (
        <div className="grid gap-6">
          <Figures statistics={statistics.data} recent={recent.data} metrics={metrics.data} />
          <Charts statistics={statistics.data} />
          <WorkflowTable metrics={metrics.data} statistics={statistics.data} />
        </div>
      ) : (
        <OverviewSkeleton />
      )}
    </>
  );
}

function OverviewSkeleton() {
  return (
    <div className="grid gap-6" aria-hidden>
      <div className="grid grid-cols-2 gap-4 lg:grid-cols-3 xl:grid-cols-6">
        {Array.from({ length: 6 }, (_, index) => (
          <Skeleton key={index} className="h-24" />
        ))}
      </div>
      <div className="grid gap-4 lg:grid-cols-2">
        {Array.from({ length: 6 }, (_, index) => (
          <Skeleton key={index} className="h-56" />
        ))}
      </div>
    </div>
  );
}
