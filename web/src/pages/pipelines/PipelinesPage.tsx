import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Plus, Workflow } from "lucide-react";
import { meQuery } from "@/api/queries";
import { Button, Empty, PageHead, Skeleton } from "@/design";
import { LinkButton } from "@/parts/LinkButton";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { templatesQuery } from "@/parts/pipeline/queries";
import { useTitle } from "@/parts/useTitle";
import { pipelinesTexts } from "@/texts/pipelines";
import { PipelineCard } from "./PipelineCard";
import { pipelinesQuery } from "./queries";
import { StartTemplateDialog } from "./StartTemplateDialog";
import { TemplateCard } from "./TemplateCard";

export function PipelinesPage() {
  useTitle(pipelinesTexts.title);
  const { start } = useSearch({ from: "/framed/pipelines" });
  const navigate = useNavigate({ from: "/pipelines" });
  const me = useQuery(meQuery);
  const pipelines = useInfiniteQuery(pipelinesQuery);
  const templates = useQuery(templatesQuery);
  const mayCreate = me.data !== undefined && me.data.role !== "viewer";
  const all = pipelines.data?.pages.flatMap((page) => page.items) ?? [];
  const started = templates.data?.find((each) => each.slug === start);
  const create = mayCreate && (
    <LinkButton look="go" to="/pipelines/new">
      <Plus size={16} aria-hidden />
      {pipelinesTexts.create}
    </LinkButton>
  );
  return (
    <>
      <PageHead title={pipelinesTexts.title} text={pipelinesTexts.text} actions={create} />
      {pipelines.isError && <ProblemPanel error={pipelines.error} onRetry={() => void pipelines.refetch()} />}
      <section aria-label={pipelinesTexts.yours}>
        {pipelines.isPending ? (
          <Cards>
            <Skeleton className="h-56 rounded-m!" />
            <Skeleton className="h-56 rounded-m!" />
          </Cards>
        ) : all.length > 0 ? (
          <Cards>
            {all.map((each) => (
              <PipelineCard key={each.id} pipeline={each} />
            ))}
          </Cards>
        ) : (
          !pipelines.isError && (
            <div className="rounded-m border border-dashed">
              <Empty
                icon={<Workflow size={20} />}
                title={pipelinesTexts.none}
                text={mayCreate ? pipelinesTexts.noneText : pipelinesTexts.noneViewer}
              />
            </div>
          )
        )}
        {pipelines.hasNextPage && (
          <div className="mt-4 flex justify-center">
            <Button busy={pipelines.isFetchingNextPage} onClick={() => void pipelines.fetchNextPage()}>
              {pipelinesTexts.more}
            </Button>
          </div>
        )}
      </section>
      {templates.data !== undefined && templates.data.length > 0 && (
        <section aria-label={pipelinesTexts.templates} className="mt-10">
          <h2>{pipelinesTexts.templates}</h2>
          <p className="mb-4 text-muted">{pipelinesTexts.templatesText}</p>
          <Cards>
            {templates.data.map((each) => (
              <TemplateCard key={each.slug} template={each} mayStart={mayCreate} />
            ))}
          </Cards>
        </section>
      )}
      {started && mayCreate && (
        <StartTemplateDialog
          key={started.slug}
          template={started}
          onClose={() => void navigate({ search: {}, replace: true, resetScroll: false })}
        />
      )}
    </>
  );
}

function Cards({ children }: { children: React.ReactNode }) {
  return <div className="grid gap-4 md:grid-cols-2 xl:grid-cols-3">{children}</div>;
}
