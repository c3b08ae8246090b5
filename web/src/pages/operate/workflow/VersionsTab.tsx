import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { History } from "lucide-react";
import { Empty } from "@/design";
import { notifyDone } from "@/parts/notify";
import { Pending } from "@/parts/Pending";
import { draftOf } from "@/parts/workflow/draft";
import { workflowsTexts } from "@/texts/workflows";
import { versionsQuery } from "./queries";
import { VersionCompare } from "./VersionCompare";
import { VersionList } from "./VersionList";
import type { EditorProps } from "./WorkflowPage";

export function VersionsTab({ workflow, editing, mayChange }: EditorProps) {
  const { version, against } = useSearch({ from: "/framed/operator/operate/workflows/$slug" });
  const navigate = useNavigate({ from: "/operate/workflows/$slug" });
  const versions = useQuery(versionsQuery(workflow.slug));
  if (!versions.data) return <Pending query={versions} className="h-64" />;
  const [newest] = versions.data;
  if (newest === undefined)
    return (
      <Empty icon={<History size={20} />} title={workflowsTexts.noVersions} text={workflowsTexts.noVersionsText} />
    );
  const shown = versions.data.find((each) => each.version === version) ?? newest;
  const older = versions.data.filter((each) => each.version < shown.version);
  const other = versions.data.find((each) => each.version === against && each.version !== shown.version) ?? older[0];
  return (
    <div className="grid items-start gap-6 lg:grid-cols-[minmax(14rem,18rem)_minmax(0,1fr)]">
      <VersionList
        versions={versions.data}
        shown={shown.version}
        onShow={(chosen) =>
          void navigate({
            search: (now) => ({ ...now, version: chosen, against: undefined }),
            replace: true,
            resetScroll: false,
          })
        }
      />
      <VersionCompare
        slug={workflow.slug}
        versions={versions.data}
        version={shown.version}
        against={other?.version}
        onAgainst={(chosen) =>
          void navigate({ search: (now) => ({ ...now, against: chosen }), replace: true, resetScroll: false })
        }
        onRestore={
          mayChange && shown.version !== newest.version
            ? (detail) => {
                editing.change(() => draftOf(detail));
                void notifyDone(workflowsTexts.restored(shown.version));
                void navigate({ search: {} });
              }
            : null
        }
      />
    </div>
  );
}
