import { lazy, Suspense, useState } from "react";
import { PageHead, Skeleton, Tabs, Time } from "@/design";
import type { Actor } from "@/parts/actors";
import { BackLink } from "@/parts/BackLink";
import { notifyDone } from "@/parts/notify";
import { editorTexts, versionTexts } from "@/texts/pipelines";
import { draftOf, type PipelineDraft, type StepWorkflow } from "./draft";
import { Editor } from "./Editor";
import { EditorActions } from "./EditorActions";
import type { Pipeline, PipelineVersion } from "./queries";
import type { PipelineTab } from "./route";
import { useEditor } from "./useEditor";

const VersionsTab = lazy(async () => ({ default: (await import("./VersionsTab")).VersionsTab }));

interface Props {
  pipeline: Pipeline;
  base: PipelineDraft;
  workflows: readonly StepWorkflow[];
  actors: readonly Actor[];
  isReadOnly: boolean;
  onSaved: (saved: Pipeline) => Promise<void>;
  tab: PipelineTab;
  onTab: (tab: PipelineTab) => void;
  version?: number;
  other?: number;
  onVersion: (search: { version?: number; with?: number }) => void;
}

/** A saved pipeline: its editor and its versions. */
export function OpenPipeline({
  pipeline,
  base,
  workflows,
  actors,
  isReadOnly,
  onSaved,
  tab,
  onTab,
  version,
  other,
  onVersion,
}: Props) {
  const editor = useEditor({ pipeline, base, workflows, onSaved });
  // Fields keep the typed text, so they are created again for steps from another version.
  const [form, setForm] = useState(0);
  const restore = (found: PipelineVersion) => {
    editor.change((now) => ({
      ...now,
      steps: found.steps.map((step) => draftOf(step, `${step.slug}-${found.version}`, workflows)),
    }));
    setForm((now) => now + 1);
    onTab("design");
    void notifyDone(versionTexts.restored(found.version));
  };
  const discard = () => {
    editor.discard();
    setForm((now) => now + 1);
  };
  const text = (
    <>
      {editorTexts.version(pipeline.version)} · <Time at={pipeline.updated_at} />
      {editor.isDirty && <span className="text-warn"> · {editorTexts.unsaved}</span>}
    </>
  );
  return (
    <>
      <PageHead
        above={<BackLink to="/pipelines" label={editorTexts.all} />}
        title={pipeline.name}
        text={text}
        actions={!isReadOnly && <EditorActions editor={editor} pipeline={pipeline} onDiscard={discard} />}
      />
      <Tabs
        label={editorTexts.tabs}
        value={tab}
        onChange={onTab}
        tabs={[
          {
            value: "design",
            label: editorTexts.design,
            content: (
              <Editor key={form} editor={editor} workflows={workflows} actors={actors} isReadOnly={isReadOnly} />
            ),
          },
          {
            value: "versions",
            label: `${editorTexts.versions} (${pipeline.version})`,
            content: (
              <Suspense fallback={<Skeleton className="h-96" />}>
                <VersionsTab
                  pipeline={pipeline}
                  workflows={workflows}
                  version={version}
                  other={other}
                  onVersion={onVersion}
                  onRestore={isReadOnly ? null : restore}
                />
              </Suspense>
            ),
          },
        ]}
      />
    </>
  );
}
