import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Save, Workflow } from "lucide-react";
import { actorsQuery, meQuery } from "@/api/queries";
import { Button, Empty, PageHead, Skeleton } from "@/design";
import type { Actor } from "@/parts/actors";
import { BackLink } from "@/parts/BackLink";
import { LinkButton } from "@/parts/LinkButton";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { type PipelineTemplate, templatesQuery } from "@/parts/pipeline/queries";
import { useTitle } from "@/parts/useTitle";
import { editorTexts, pipelinesTexts } from "@/texts/pipelines";
import { draftOf, emptyStep, type PipelineDraft, type StepWorkflow } from "./draft";
import { Editor } from "./Editor";
import { type Pipeline, pipelineQuery, stepWorkflowsQuery } from "./queries";
import type { RunInputs } from "./run-inputs";
import { useEditor } from "./useEditor";

export function NewPipelinePage() {
  useTitle(editorTexts.newTitle);
  const { template: slug } = useSearch({ from: "/framed/pipelines/new" });
  const me = useQuery(meQuery);
  const workflows = useQuery(stepWorkflowsQuery);
  const actors = useQuery(actorsQuery);
  const templates = useQuery({ ...templatesQuery, enabled: slug !== undefined });
  if (me.data?.role === "viewer") {
    const back = <LinkButton to="/pipelines">{editorTexts.all}</LinkButton>;
    return (
      <Empty
        isPage
        icon={<Workflow size={20} />}
        title={editorTexts.newTitle}
        text={pipelinesTexts.noneViewer}
        action={back}
      />
    );
  }
  const failed = [workflows, actors, templates].find((each) => each.isError);
  const isWaiting = !workflows.data || !actors.data || (slug !== undefined && templates.isPending);
  if (failed || isWaiting) {
    return (
      <>
        <PageHead above={<BackLink to="/pipelines" label={editorTexts.all} />} title={editorTexts.newTitle} />
        {failed ? (
          <ProblemPanel error={failed.error} onRetry={() => void failed.refetch()} />
        ) : (
          <Skeleton className="h-96 rounded-m!" />
        )}
      </>
    );
  }
  return (
    <Draft
      key={slug}
      workflows={workflows.data!}
      actors={actors.data!}
      template={templates.data?.find((each) => each.slug === slug) ?? null}
    />
  );
}

function Draft({
  workflows,
  actors,
  template,
}: {
  workflows: readonly StepWorkflow[];
  actors: readonly Actor[];
  template: PipelineTemplate | null;
}) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const onSaved = async (saved: Pipeline) => {
    const slug = saved.slug === "new" ? saved.id : saved.slug;
    client.setQueryData(pipelineQuery(slug).queryKey, saved);
    await navigate({ to: "/pipelines/$slug", params: { slug }, replace: true });
  };
  const editor = useEditor({
    pipeline: null,
    base: baseOf(template, workflows),
    workflows,
    suggested: suggestedBy(template),
    onSaved,
  });
  const save = (
    <Button look="go" busy={editor.isSaving} onClick={() => void editor.save()} icon={<Save size={16} aria-hidden />}>
      {editor.isSaving ? editorTexts.saving : editorTexts.saveFirst}
    </Button>
  );
  return (
    <>
      <PageHead
        above={<BackLink to="/pipelines" label={editorTexts.all} />}
        title={editorTexts.newTitle}
        text={template?.description}
        actions={save}
      />
      <Editor editor={editor} workflows={workflows} actors={actors} isReadOnly={false} />
    </>
  );
}

function baseOf(template: PipelineTemplate | null, workflows: readonly StepWorkflow[]): PipelineDraft {
  if (template === null) return { name: "", description: "", steps: [emptyStep("first", "")] };
  return {
    name: template.name,
    description: template.description,
    steps: template.steps.map((step, index) => draftOf(step, `template-${index}`, workflows)),
  };
}

function suggestedBy(template: PipelineTemplate | null): Partial<RunInputs> {
  if (template === null) return {};
  const { prompt, variables, target_leaves: leaves, strategy } = template.run;
  return {
    prompt: prompt ?? "",
    variables: Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, String(value)])),
    leaves,
    strategy,
  };
}
