import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Workflow } from "lucide-react";
import { metricsQuery } from "@/api/queries";
import { Empty, PageHead, Segments } from "@/design";
import { MoreButton } from "@/parts/MoreButton";
import { Pending } from "@/parts/Pending";
import { useDropAndPaste } from "@/parts/upload/useDropAndPaste";
import { useRole } from "@/parts/useRole";
import { useTitle } from "@/parts/useTitle";
import { ExportButton } from "@/parts/workflow/ExportButton";
import { ExportProblem } from "@/parts/workflow/ExportProblem";
import { useExport } from "@/parts/workflow/useExport";
import { workflowsTexts } from "@/texts/workflows";
import { DropHint } from "./DropHint";
import { ImportDialog } from "./ImportDialog";
import { workflowsQuery } from "./queries";
import { WORKFLOW_VIEWS } from "./route";
import { WorkflowList } from "./WorkflowList";

export function WorkflowsPage() {
  useTitle(workflowsTexts.title);
  const { view = "all" } = useSearch({ from: "/framed/operator/operate/workflows" });
  const navigate = useNavigate({ from: "/operate/workflows" });
  const query = useInfiniteQuery(workflowsQuery(view));
  const metrics = useQuery(metricsQuery);
  const { mayOperate: mayChange } = useRole();
  const read = useExport();
  const isOver = useDropAndPaste(mayChange, (file) => read.mutate(file));
  const workflows = query.data?.pages.flatMap((page) => page.items) ?? [];
  const button = (look: "go" | "plain") => (
    <ExportButton look={look} busy={read.isPending} onFile={(file) => read.mutate(file)}>
      {workflowsTexts.import}
    </ExportButton>
  );
  return (
    <>
      <PageHead
        title={workflowsTexts.title}
        text={workflowsTexts.text}
        actions={
          <>
            <Segments
              label={workflowsTexts.viewLabel}
              value={view}
              choices={WORKFLOW_VIEWS.map((value) => ({ value, label: workflowsTexts.views[value] }))}
              onChange={(chosen) =>
                void navigate({ search: { view: chosen === "all" ? undefined : chosen }, replace: true })
              }
            />
            {mayChange && button("go")}
          </>
        }
      />
      {mayChange && workflows.length > 0 && <DropHint isOver={isOver} />}
      {!query.data ? (
        <Pending query={query} className="h-64" />
      ) : workflows.length === 0 ? (
        <Empty
          icon={<Workflow size={20} />}
          title={workflowsTexts.noneOfView[view]}
          text={view === "all" ? workflowsTexts.noneText : undefined}
          action={mayChange && view === "all" ? button("plain") : undefined}
        />
      ) : (
        <div className="grid gap-4">
          <WorkflowList workflows={workflows} metrics={metrics.data?.workflows ?? []} />
          <MoreButton query={query} />
        </div>
      )}
      {read.error && <ExportProblem error={read.error} onClose={read.reset} />}
      {read.data && <ImportDialog key={read.submittedAt} read={read.data} onClose={read.reset} />}
    </>
  );
}
