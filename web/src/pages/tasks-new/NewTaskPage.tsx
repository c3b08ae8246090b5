import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Bot } from "lucide-react";
import { useRef } from "react";
import { actorsQuery } from "@/api/queries";
import { Empty, PageHead, Skeleton } from "@/design";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { useTitle } from "@/parts/useTitle";
import { taskTexts } from "@/texts/tasks";
import { ActorPicker } from "./ActorPicker";
import { sentQuery } from "./queries";
import { SubmittedTask } from "./SubmittedTask";
import { TaskForm } from "./TaskForm";

export function NewTaskPage() {
  const { actor: wanted, variant, job, from } = useSearch({ from: "/framed/tasks/new" });
  const navigate = useNavigate({ from: "/tasks/new" });
  const actors = useQuery(actorsQuery);
  const earlier = useQuery({ ...sentQuery(from ?? ""), enabled: from !== undefined });
  const name = wanted ?? earlier.data?.actor;
  const actor =
    actors.data?.find((each) => each.name === name) ??
    actors.data?.find((each) => each.is_active && each.is_ready) ??
    actors.data?.[0];
  useTitle(actor?.title ?? taskTexts.title);
  const result = useRef<HTMLDivElement>(null);
  const isFilling = from !== undefined && earlier.isPending;
  const head = <PageHead title={taskTexts.title} text={taskTexts.text} />;
  if (actors.isError)
    return (
      <>
        {head}
        <ProblemPanel error={actors.error} onRetry={() => void actors.refetch()} />
      </>
    );
  if (actors.data?.length === 0)
    return (
      <>
        {head}
        <Empty icon={<Bot size={20} />} title={taskTexts.none} text={taskTexts.noneText} />
      </>
    );
  return (
    <>
      {head}
      <div className="grid items-start gap-6 lg:grid-cols-[minmax(0,1fr)_minmax(22rem,26rem)] lg:grid-rows-[auto_1fr] lg:gap-x-8">
        {actors.data && actor ? <ActorPicker actors={actors.data} chosen={actor.name} /> : <PickerSkeleton />}
        <div className="lg:col-start-2 lg:row-span-2 lg:row-start-1">
          {actor && !isFilling ? (
            <TaskForm
              key={`${actor.name} ${variant ?? ""} ${from ?? ""}`}
              actor={actor}
              earlier={earlier.data?.payload ?? null}
              from={from}
              variant={variant}
              onVariant={(title) =>
                void navigate({ search: { actor: actor.name, variant: title }, replace: true, resetScroll: false })
              }
              onSubmitted={(id) => {
                void navigate({
                  search: { actor: actor.name, variant, job: id, from },
                  replace: true,
                  resetScroll: false,
                });
                // On a phone the result is below the form.
                result.current?.scrollIntoView({ block: "nearest", behavior: "smooth" });
              }}
            />
          ) : (
            <Skeleton className="h-96 rounded-m!" />
          )}
        </div>
        <div ref={result} className="min-w-0 scroll-mt-16">
          <SubmittedTask jobId={job} />
        </div>
      </div>
    </>
  );
}

function PickerSkeleton() {
  return (
    <div className="grid grid-cols-2 gap-2 md:grid-cols-3" aria-hidden="true">
      {Array.from({ length: 6 }, (_, index) => (
        <Skeleton key={index} className="h-28 rounded-m!" />
      ))}
    </div>
  );
}
