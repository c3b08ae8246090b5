import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Cpu } from "lucide-react";
import { Button, Empty, PageHead, Segments, Skeleton } from "@/design";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { useTitle } from "@/parts/useTitle";
import { workersTexts } from "@/texts/workers";
import { workersQuery } from "./queries";
import { WORKER_VIEWS, type WorkerView } from "./route";
import { WorkerList } from "./WorkerList";

export function WorkersPage() {
  useTitle(workersTexts.title);
  const { view = "live" } = useSearch({ from: "/framed/operator/operate/workers" });
  const navigate = useNavigate({ from: "/operate/workers" });
  const query = useInfiniteQuery(workersQuery(view));
  const workers = query.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <>
      <PageHead
        title={workersTexts.title}
        text={workersTexts.text}
        actions={
          <Segments
            label={workersTexts.viewLabel}
            value={view}
            choices={WORKER_VIEWS.map((value) => ({ value, label: workersTexts.views[value] }))}
            onChange={(chosen) => void navigate({ search: { view: chosen }, replace: true })}
          />
        }
      />
      {query.isError && workers.length === 0 ? (
        <ProblemPanel error={query.error} onRetry={() => void query.refetch()} />
      ) : query.isPending ? (
        <Skeleton className="h-64" />
      ) : workers.length === 0 ? (
        <NoWorkers view={view} />
      ) : (
        <div className="grid gap-4">
          <WorkerList workers={workers} />
          {query.hasNextPage && (
            <Button className="justify-self-center" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
              {workersTexts.more}
            </Button>
          )}
        </div>
      )}
    </>
  );
}

function NoWorkers({ view }: { view: WorkerView }) {
  const title = view === "live" ? workersTexts.noneLive : view === "silent" ? workersTexts.noneOffline : workersTexts.none;
  return <Empty icon={<Cpu size={20} />} title={title} text={view === "silent" ? undefined : workersTexts.noneLiveText} />;
}
