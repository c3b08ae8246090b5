import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Workflow } from "lucide-react";
import { useMemo } from "react";
import { hasStatus } from "@/api/problems";
import { actorsQuery, meQuery } from "@/api/queries";
import { Empty, Skeleton } from "@/design";
import { LinkButton } from "@/parts/LinkButton";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { useTitle } from "@/parts/useTitle";
import { editorTexts } from "@/texts/pipelines";
import { draftOf, type PipelineDraft, type StepWorkflow } from "./draft";
import { OpenPipeline } from "./OpenPipeline";
import { type Pipeline, pipelineQuery, stepWorkflowsQuery } from "./queries";

export function PipelinePage() {
  const { slug } = useParams({ from: "/framed/pipelines/$slug" });
  const { tab, version, with: other } = useSearch({ from: "/framed/pipelines/$slug" });
  const navigate = useNavigate({ from: "/pipelines/$slug" });
  const client = useQueryClient();
  const pipeline = useQuery(pipelineQuery(slug));
  const workflows = useQuery(stepWorkflowsQuery);
  const actors = useQuery(actorsQuery);
  const me = useQuery(meQuery);
  useTitle(pipeline.data?.name ?? editorTexts.versions);
  const base = useMemo(
    () => (pipeline.data && workflows.data ? draftOfPipeline(pipeline.data, workflows.data) : null),
    [pipeline.data, workflows.data],
  );
  if (hasStatus(pipeline.error, 404))
    return (
      <Empty
        isPage
        icon={<Workflow size={20} />}
        title={editorTexts.notFound}
        text={editorTexts.notFoundText}
        action={<Back />}
      />
    );
  const failed = [pipeline, workflows, actors].find((each) => each.isError);
  if (failed) return <ProblemPanel error={failed.error} onRetry={() => void failed.refetch()} />;
  if (!pipeline.data || !base || !workflows.data || !actors.data) return <Skeleton className="h-96 rounded-m!" />;
  const onSaved = async (saved: Pipeline) => client.setQueryData(pipelineQuery(slug).queryKey, saved) && undefined;
  return (
    <OpenPipeline
      key={`${pipeline.data.version} ${pipeline.data.updated_at}`}
      pipeline={pipeline.data}
      base={base}
      workflows={workflows.data}
      actors={actors.data}
      isReadOnly={me.data?.role === "viewer"}
      onSaved={onSaved}
      tab={tab ?? "design"}
      onTab={(next) =>
        void navigate({ search: next === "versions" ? { tab: next } : {}, replace: true, resetScroll: false })
      }
      version={version}
      other={other}
      onVersion={(search) =>
        void navigate({ search: { tab: "versions", ...search }, replace: true, resetScroll: false })
      }
    />
  );
}

function draftOfPipeline(pipeline: Pipeline, workflows: readonly StepWorkflow[]): PipelineDraft {
  return {
    name: pipeline.name,
    description: pipeline.description,
    steps: pipeline.steps.map((step) => draftOf(step, step.slug, workflows)),
  };
}

function Back() {
  return <LinkButton to="/pipelines">{editorTexts.all}</LinkButton>;
}
