import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { SearchX } from "lucide-react";
import { useEffect, useMemo } from "react";
import { hasStatus } from "@/api/problems";
import { Empty, PageHead, Skeleton, StatusBadge, Tabs, Time } from "@/design";
import { BackLink } from "@/parts/BackLink";
import { readGraph } from "@/parts/graph/graph";
import { adminJobQuery } from "@/parts/job/queries";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { useTitle } from "@/parts/useTitle";
import { WhyWaiting } from "@/parts/WhyWaiting";
import { operatorJobTexts as texts } from "@/texts/operator-job";
import { EventsTab } from "./EventsTab";
import { FailedAlike } from "./FailedAlike";
import { GraphTab } from "./GraphTab";
import { JobActions } from "./JobActions";
import { JobFacts } from "./JobFacts";
import { JobFailure } from "./JobFailure";
import { JobFiles } from "./JobFiles";
import { MoneyTab } from "./MoneyTab";
import { PayloadTab } from "./PayloadTab";
import { listedJobQuery, waterfallQuery } from "./queries";
import { WaterfallPanel } from "./WaterfallPanel";

/** All facts about one job of any tenant. */
export function OperatorJobPage() {
  const { id } = useParams({ from: "/framed/operator/operate/jobs/$id" });
  const { tab = "graph" } = useSearch({ from: "/framed/operator/operate/jobs/$id" });
  const navigate = useNavigate({ from: "/operate/jobs/$id" });
  const job = useQuery(adminJobQuery(id));
  const waterfall = useQuery(waterfallQuery(id));
  const listed = useQuery(listedJobQuery(id)).data?.items[0];
  const title = listed?.title ?? job.data?.title ?? texts.title(id);
  useTitle(title);
  const { refetch } = job;
  const isStale =
    job.data &&
    waterfall.data &&
    (job.data.status !== waterfall.data.status || job.data.charge_cycle !== waterfall.data.charge_cycle);
  // Result, error and queue entry changed with the status.
  useEffect(() => void (isStale && refetch()), [isStale, refetch]);
  const payload = job.data?.payload;
  const graph = useMemo(() => readGraph(payload?.workflow), [payload]);
  const error = [job.error, waterfall.error].find((each) => each && (hasStatus(each, 404) || hasStatus(each, 422)));
  if (error)
    return (
      <Empty
        icon={<SearchX size={20} />}
        title={texts.notFound}
        text={texts.notFoundText}
        action={<BackLink to="/operate/jobs" label={texts.back} />}
        isPage
      />
    );
  if (!job.data || !waterfall.data) {
    const failure = job.error ?? waterfall.error;
    return failure ? (
      <ProblemPanel error={failure} onRetry={() => void Promise.all([job.refetch(), waterfall.refetch()])} />
    ) : (
      <PageSkeleton />
    );
  }
  const tabs = [
    {
      value: "graph" as const,
      label: texts.graph,
      content: <GraphTab job={job.data} graph={graph} waterfall={waterfall.data} />,
    },
    { value: "payload" as const, label: texts.payload, content: <PayloadTab payload={payload} /> },
    { value: "events" as const, label: texts.events, content: <EventsTab jobId={id} events={waterfall.data.events} /> },
    { value: "money" as const, label: texts.money, content: <MoneyTab transactions={waterfall.data.transactions} /> },
  ];
  return (
    <>
      <PageHead
        above={
          <BackLink to="/operate/jobs" label={texts.back}>
            <StatusBadge status={waterfall.data.status} />
          </BackLink>
        }
        title={title}
        text={
          <>
            {listed &&
              `${[...new Set([listed.tenant, listed.workflow])].filter((each) => each !== title).join(" · ")} · `}
            {texts.accepted} <Time at={job.data.created_at} />
          </>
        }
        actions={<JobActions job={job.data} />}
      />
      <div className="grid gap-6">
        <WhyWaiting reason={waterfall.data.why_waiting} />
        <JobFailure job={job.data} />
        {job.data.error && listed?.fingerprint && <FailedAlike fingerprint={listed.fingerprint} />}
        <WaterfallPanel waterfall={waterfall.data} graph={graph} />
        <JobFiles job={job.data} />
        <JobFacts job={job.data} listed={listed} />
        <Tabs
          label={texts.tabs}
          value={tab}
          tabs={tabs}
          onChange={(chosen) =>
            void navigate({
              search: (before) => ({ ...before, tab: chosen === "graph" ? undefined : chosen }),
              replace: true,
              resetScroll: false,
            })
          }
        />
      </div>
    </>
  );
}

function PageSkeleton() {
  return (
    <div className="grid gap-6" aria-hidden>
      <Skeleton className="h-16 w-80" />
      <Skeleton className="h-72" />
      <Skeleton className="h-32" />
      <Skeleton className="h-96" />
    </div>
  );
}
