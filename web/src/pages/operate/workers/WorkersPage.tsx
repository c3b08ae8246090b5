import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Cpu, SearchX } from "lucide-react";
import { Empty, PageHead, Segments } from "@/design";
import { MoreButton } from "@/parts/MoreButton";
import { Pending } from "@/parts/Pending";
import { SearchField } from "@/parts/SearchField";
import { useTitle } from "@/parts/useTitle";
import { workersQuery } from "@/parts/worker/queries";
import { WORKER_VIEWS, type WorkerView } from "@/parts/worker/views";
import { workersTexts } from "@/texts/workers";
import { WorkerList } from "./WorkerList";

export function WorkersPage() {
  useTitle(workersTexts.title);
  const { view = "live", q } = useSearch({ from: "/framed/operator/operate/workers" });
  const navigate = useNavigate({ from: "/operate/workers" });
  const query = useInfiniteQuery(workersQuery(view, q));
  const workers = query.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <>
      <PageHead title={workersTexts.title} text={workersTexts.text} />
      <div className="mb-4 flex flex-wrap items-center gap-3">
        <SearchField
          label={workersTexts.search}
          value={q ?? ""}
          onChange={(words) =>
            void navigate({ search: (before) => ({ ...before, q: words || undefined }), replace: true })
          }
        />
        <Segments
          label={workersTexts.viewLabel}
          value={view}
          choices={WORKER_VIEWS.map((value) => ({ value, label: workersTexts.views[value] }))}
          onChange={(chosen) =>
            void navigate({
              search: (before) => ({ ...before, view: chosen === "live" ? undefined : chosen }),
              replace: true,
            })
          }
        />
      </div>
      {!query.data ? (
        <Pending query={query} className="h-64" />
      ) : workers.length === 0 ? (
        <NoWorkers view={view} q={q} />
      ) : (
        <div className="grid gap-4">
          <WorkerList workers={workers} />
          <MoreButton query={query} />
        </div>
      )}
    </>
  );
}

function NoWorkers({ view, q }: { view: WorkerView; q?: string }) {
  if (q)
    return (
      <Empty
        icon={<SearchX size={20} />}
        title={workersTexts.noneFound(q)}
        text={view === "all" ? undefined : workersTexts.noneFoundText}
      />
    );
  return (
    <Empty
      icon={<Cpu size={20} />}
      title={workersTexts.none[view]}
      text={view === "live" || view === "all" ? workersTexts.noneLiveText : undefined}
    />
  );
}
