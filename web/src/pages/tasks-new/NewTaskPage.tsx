import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Bot } from "lucide-react";
import { Empty, PageHead, Skeleton } from "@/design";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { useTitle } from "@/parts/useTitle";
import { taskTexts } from "@/texts/tasks";
import { ActorPicker, actorName } from "./ActorPicker";
import { actorsQuery, sentQuery } from "./queries";
import { TaskAnswer } from "./TaskAnswer";
import { TaskForm } from "./TaskForm";

export function NewTaskPage() {
  const { actor: wanted, job, from } = useSearch({ from: "/framed/tasks/new" });
  const navigate = useNavigate({ from: "/tasks/new" });
  const actors = useQuery(actorsQuery);
  const earlier = useQuery({ ...sentQuery(from ?? ""), enabled: from !== undefined });
  const name = wanted ?? earlier.data?.actor;
  const actor = actors.data?.find((each) => each.name === name) ?? actors.data?.find((each) => each.is_active) ?? actors.data?.[0];
  useTitle(actor ? actorName(actor.name) : taskTexts.title);
  const isFilling = from !== undefined && earlier.isPending;
  const head = <PageHead title={taskTexts.title} text={taskTexts.text} />;
  if (actors.isError) return <>{head}<ProblemPanel error={actors.error} onRetry={() => void actors.refetch()} /></>;
  if (actors.data?.length === 0) return <>{head}<Empty icon={<Bot size={20} />} title={taskTexts.none} text={taskTexts.noneText} /></>;
  return (
    <>
      {head}
      <div className="grid items-start gap-6 lg:grid-cols-[minmax(0,1fr)_minmax(22rem,26rem)] lg:gap-8">
        {actors.data && actor ? <ActorPicker actors={actors.data} chosen={actor.name} /> : <Skeleton className="h-56 rounded-m!" />}
        <div className="lg:col-start-2 lg:row-span-2 lg:row-start-1">
          {actor && !isFilling ? (
            <TaskForm
              key={`${actor.name} ${from ?? ""}`}
              actor={actor}
              earlier={earlier.data?.payload ?? null}
              from={from}
              onSubmitted={(id) => void navigate({ search: { actor: actor.name, job: id, from }, replace: true, resetScroll: false })}
            />
          ) : (
            <Skeleton className="h-96 rounded-m!" />
          )}
        </div>
        <TaskAnswer jobId={job} />
      </div>
    </>
  );
}
