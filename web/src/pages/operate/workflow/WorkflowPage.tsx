import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Workflow } from "lucide-react";
import { lazy, type ReactNode, Suspense } from "react";
import { hasStatus } from "@/api/problems";
import { Badge, Empty, PageHead, Skeleton, Tabs } from "@/design";
import { BackLink } from "@/parts/BackLink";
import { JobsLink } from "@/parts/JobsLink";
import { LinkButton } from "@/parts/LinkButton";
import { Pending } from "@/parts/Pending";
import { useRole } from "@/parts/useRole";
import { useTitle } from "@/parts/useTitle";
import { type WorkflowDetail, workflowQuery } from "@/parts/workflow/queries";
import { workflowsTexts } from "@/texts/workflows";
import { SaveWorkflowBar } from "./SaveWorkflowBar";
import { useSaveWorkflow } from "./useWorkflowActions";
import { useWorkflowDraft } from "./useWorkflowDraft";
import { WorkflowActions } from "./WorkflowActions";

// Each tab loads on demand: together they exceed the script budget of a page.
const DesignTab = lazy(() => import("./DesignTab").then((found) => ({ default: found.DesignTab })));
const EffectsTab = lazy(() => import("./EffectsTab").then((found) => ({ default: found.EffectsTab })));
const RequirementsTab = lazy(() => import("./RequirementsTab").then((found) => ({ default: found.RequirementsTab })));
const SettingsTab = lazy(() => import("./SettingsTab").then((found) => ({ default: found.SettingsTab })));
const VersionsTab = lazy(() => import("./VersionsTab").then((found) => ({ default: found.VersionsTab })));

export function WorkflowPage() {
  const { slug } = useParams({ from: "/framed/operator/operate/workflows/$slug" });
  const workflow = useQuery(workflowQuery(slug));
  useTitle(workflow.data?.name ?? slug);
  if (hasStatus(workflow.error, 404)) {
    return (
      <Empty
        isPage
        icon={<Workflow size={20} />}
        title={workflowsTexts.notFound}
        text={workflowsTexts.notFoundText}
        action={<LinkButton to="/operate/workflows">{workflowsTexts.back}</LinkButton>}
      />
    );
  }
  if (workflow.data !== undefined) return <Editor key={slug} workflow={workflow.data} />;
  return <Pending query={workflow} className="h-96" />;
}

function Editor({ workflow }: { workflow: WorkflowDetail }) {
  const { tab = "design" } = useSearch({ from: "/framed/operator/operate/workflows/$slug" });
  const navigate = useNavigate({ from: "/operate/workflows/$slug" });
  const { mayOperate: mayChange } = useRole();
  const editing = useWorkflowDraft(workflow);
  const save = useSaveWorkflow(workflow.slug, editing.discard);
  const shared = { workflow, editing, mayChange, refused: save.error };
  return (
    <>
      <PageHead
        isTight
        above={<BackLink to="/operate/workflows" label={workflowsTexts.back} />}
        title={workflow.name}
        text={
          <span className="flex flex-wrap items-center gap-2">
            {workflow.is_active ? (
              <Badge tone="ok">{workflowsTexts.active}</Badge>
            ) : (
              <Badge>{workflowsTexts.inactive}</Badge>
            )}
            <code className="[overflow-wrap:anywhere]">{workflow.slug}</code>
          </span>
        }
        actions={
          <>
            <JobsLink search={{ workflow: workflow.slug }} />
            {mayChange && <WorkflowActions workflow={workflow} />}
          </>
        }
      />
      <Tabs
        label={workflowsTexts.tabsLabel}
        value={tab}
        onChange={(chosen) =>
          void navigate({
            search: (now) => ({ ...now, tab: chosen === "design" ? undefined : chosen }),
            replace: true,
            resetScroll: false,
          })
        }
        tabs={[
          {
            value: "design",
            label: workflowsTexts.tabs.design,
            content: workflow.graph ? (
              later(<DesignTab {...shared} />)
            ) : (
              <p className="text-muted">{workflowsTexts.noGraph}</p>
            ),
          },
          { value: "versions", label: workflowsTexts.tabs.versions, content: later(<VersionsTab {...shared} />) },
          { value: "settings", label: workflowsTexts.tabs.settings, content: later(<SettingsTab {...shared} />) },
          {
            value: "requirements",
            label: workflowsTexts.tabs.requirements,
            content: workflow.graph ? (
              later(<RequirementsTab {...shared} />)
            ) : (
              <p className="text-muted">{workflowsTexts.noGraph}</p>
            ),
          },
          {
            value: "effects",
            label: workflowsTexts.tabs.effects,
            content: later(<EffectsTab workflow={workflow} mayChange={mayChange} />),
          },
        ]}
      />
      {editing.isDirty && mayChange && <SaveWorkflowBar workflow={workflow} editing={editing} save={save} />}
    </>
  );
}

function later(tab: ReactNode) {
  return <Suspense fallback={<Skeleton className="h-96" />}>{tab}</Suspense>;
}

export interface EditorProps {
  workflow: WorkflowDetail;
  editing: ReturnType<typeof useWorkflowDraft>;
  mayChange: boolean;
  /** The reason why the last save was refused. */
  refused: unknown;
}
