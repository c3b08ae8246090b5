import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { metricsQuery } from "@/api/queries";
import { PageHead, Segments, Skeleton } from "@/design";
import { ChoiceFilter } from "@/parts/ChoiceFilter";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { useTitle } from "@/parts/useTitle";
import { operateTexts } from "@/texts/operate";
import { AlertList } from "./AlertList";
import { Charts } from "./Charts";
import { Figures } from "./Figures";
import { statisticsQuery } from "./queries";
import { RANGES } from "./route";
import { WorkflowTable } from "./WorkflowTable";

export function OverviewPage() {
  useTitle(operateTexts.title);
  const { range = "1h", workflow } = useSearch({ from: "/framed/operator/operate" });
  const navigate = useNavigate({ from: "/operate" });
  const statistics = useQuery(statisticsQuery(range, workflow));
  // Both are the same query if the range is an hour.
  const recent = useQuery(statisticsQuery("1h", workflow));
  const metrics = useQuery(metricsQuery);
  const failed = [statistics, recent].find((query) => query.isError && !query.data);
  return (
    <>
      <PageHead
        title={operateTexts.title}
        text={operateTexts.rangeTexts[range]}
        actions={
          <>
            <ChoiceFilter
              label={operateTexts.workflow}
              any={operateTexts.allWorkflows}
              className="w-56 max-sm:w-48"
              value={workflow}
              choices={(metrics.data?.workflows ?? []).map((each) => ({ value: each.workflow, label: each.workflow }))}
              onChange={(chosen) =>
                void navigate({ search: (before) => ({ ...before, workflow: chosen }), replace: true })
              }
            />
            <Segments
              label={operateTexts.rangeLabel}
              value={range}
              choices={RANGES.map((value) => ({ value, label: operateTexts.ranges[value] }))}
              onChange={(chosen) =>
                void navigate({ search: (before) => ({ ...before, range: chosen }), replace: true })
              }
            />
          </>
        }
      />
      <AlertList />
      {failed ? (
        <ProblemPanel error={failed.error} onRetry={() => void failed.refetch()} />
      ) : (
        <div className="grid gap-6">
          {metrics.isError && !metrics.data ? (
            <ProblemPanel error={metrics.error} onRetry={() => void metrics.refetch()} />
          ) : statistics.data && recent.data && metrics.data ? (
            <Figures statistics={statistics.data} recent={recent.data} metrics={metrics.data} />
          ) : (
            <Skeletons count={6} className="h-24" columns="grid-cols-2 lg:grid-cols-3 xl:grid-cols-6" />
          )}
          {/* The charts do not wait for the metrics, which take longer. */}
          {statistics.data ? (
            <Charts statistics={statistics.data} />
          ) : (
            <Skeletons count={8} className="h-56" columns="lg:grid-cols-2" />
          )}
          {statistics.data && metrics.data && <WorkflowTable metrics={metrics.data} statistics={statistics.data} />}
        </div>
      )}
    </>
  );
}

function Skeletons({ count, className, columns }: { count: number; className: string; columns: string }) {
  return (
    <div className={`grid gap-4 ${columns}`} aria-hidden>
      {Array.from({ length: count }, (_, index) => (
        <Skeleton key={index} className={className} />
      ))}
    </div>
  );
}
