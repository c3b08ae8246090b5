import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { GitFork } from "lucide-react";
import { Button, Empty, PageHead, Skeleton } from "@/design";
import { LinkButton } from "@/parts/LinkButton";
import { MoreButton } from "@/parts/MoreButton";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { useTitle } from "@/parts/useTitle";
import { runsTexts } from "@/texts/runs";
import { isFiltered } from "./filters";
import { runsQuery } from "./queries";
import { RunFilters } from "./RunFilters";
import { RunRow } from "./RunRow";
import { useSteadyWinners } from "./useSteadyWinners";

export function RunsPage() {
  useTitle(runsTexts.title);
  const search = useSearch({ from: "/framed/runs" });
  const navigate = useNavigate({ from: "/runs" });
  const query = useInfiniteQuery(runsQuery(search));
  const runs = useSteadyWinners(query.data?.pages.flatMap((page) => page.items) ?? []);
  return (
    <>
      <PageHead title={runsTexts.title} text={runsTexts.text} />
      <RunFilters search={search} onChange={(next) => void navigate({ search: next, replace: true })} />
      {query.isError && runs.length === 0 ? (
        <ProblemPanel error={query.error} onRetry={() => void query.refetch()} />
      ) : query.isPending ? (
        <div className="grid gap-3" aria-hidden>
          {Array.from({ length: 4 }, (_, index) => (
            <Skeleton key={index} className="h-24" />
          ))}
        </div>
      ) : runs.length === 0 ? (
        isFiltered(search) ? (
          <Empty
            icon={<GitFork size={20} />}
            title={runsTexts.noneFound}
            text={runsTexts.noneFoundText}
            action={<Button onClick={() => void navigate({ search: {}, replace: true })}>{runsTexts.clear}</Button>}
          />
        ) : (
          <Empty
            icon={<GitFork size={20} />}
            title={runsTexts.none}
            text={runsTexts.noneText}
            action={
              <LinkButton look="go" to="/pipelines">
                {runsTexts.toPipelines}
              </LinkButton>
            }
          />
        )
      ) : (
        <div className="grid gap-4">
          <ul
            className="panel divide-y overflow-hidden"
            aria-label={runsTexts.list}
            aria-busy={query.isPlaceholderData}
          >
            {runs.map((run) => (
              <RunRow key={run.id} run={run} />
            ))}
          </ul>
          <MoreButton query={query} />
        </div>
      )}
    </>
  );
}
