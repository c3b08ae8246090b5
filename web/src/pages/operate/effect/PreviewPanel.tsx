import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Trash2 } from "lucide-react";
import { lazy, Suspense } from "react";
import { Button, Segments, Skeleton } from "@/design";
import { Art } from "@/parts/Art";
import { BeforeAfter } from "@/parts/BeforeAfter";
import { exampleMedia } from "@/parts/effects";
import { DEFAULT_RATIO, ratioOf } from "@/parts/media";
import { LoopingClip } from "@/parts/player/LoopingClip";
import { MediaBox } from "@/parts/player/MediaBox";
import { Refusal } from "@/parts/Refusal";
import { type EffectRecord, workflowQuery } from "@/parts/workflow/queries";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import { UploadPreview } from "./UploadPreview";
import { useEffectPreview } from "./useEffectActions";

// The form loads when an operator renders a preview.
const TestPanel = lazy(async () => ({ default: (await import("@/parts/workflow/TestPanel")).TestPanel }));
const HEIGHT = "20rem";

/** The preview in the gallery, and two ways to make it: two files, or a run with a sample. */
export function PreviewPanel({ effect, mayChange }: { effect: EffectRecord; mayChange: boolean }) {
  const { preview = "upload", test } = useSearch({ from: "/framed/operator/operate/effects/$slug" });
  const navigate = useNavigate({ from: "/operate/effects/$slug" });
  const workflow = useQuery({ ...workflowQuery(effect.workflow), enabled: preview === "render" });
  const change = useEffectPreview(effect.slug);
  return (
    <div className="grid min-w-0 gap-6">
      <section className="panel grid min-w-0 gap-4 p-4 sm:p-5" aria-label={texts.preview}>
        <div>
          <h2>{texts.preview}</h2>
          <p className="mt-0.5 text-s text-muted">{texts.previewText}</p>
        </div>
        <Shown effect={effect} />
        <Refusal error={change.error} />
        {mayChange && effect.preview && (
          <Button
            look="quiet"
            size="s"
            className="justify-self-start"
            busy={change.isPending && change.variables === null}
            icon={<Trash2 size={14} />}
            onClick={() => change.mutate(null)}
          >
            {texts.removePreview}
          </Button>
        )}
        {mayChange && (
          <Segments
            className="justify-self-start"
            label={texts.previewWay}
            value={preview}
            choices={[
              { value: "upload", label: texts.uploadTab },
              { value: "render", label: texts.renderTab },
            ]}
            onChange={(way) =>
              void navigate({
                search: (now) => ({ ...now, preview: way === "render" ? "render" : undefined }),
                replace: true,
                resetScroll: false,
              })
            }
          />
        )}
        {mayChange && preview === "upload" && <UploadPreview slug={effect.slug} />}
      </section>
      {mayChange && preview === "render" && workflow.data && (
        <Suspense fallback={<Skeleton className="h-64" />}>
          <TestPanel
            slug={effect.workflow}
            isActive={workflow.data.is_active}
            properties={workflow.data.properties}
            overrides={effect.overrides}
            draft={null}
            mayRun
            job={test}
            onJob={(id) =>
              void navigate({ search: (now) => ({ ...now, test: id }), replace: true, resetScroll: false })
            }
            onFleets={() =>
              void navigate({
                to: "/operate/workflows/$slug",
                params: { slug: effect.workflow },
                search: { tab: "settings" },
              })
            }
            action={(jobId) => (
              <Button busy={change.isPending} onClick={() => change.mutate({ job_id: jobId })}>
                {change.isPending ? texts.rendering : texts.useResult}
              </Button>
            )}
          />
        </Suspense>
      )}
    </div>
  );
}

function Shown({ effect }: { effect: EffectRecord }) {
  const before = exampleMedia(effect.preview?.before, texts.uploadBefore);
  const after = exampleMedia(effect.preview?.after, texts.uploadAfter);
  if (after === null) {
    return (
      <MediaBox ratio={DEFAULT_RATIO} maxHeight={HEIGHT}>
        <Art name={effect.name} className="absolute inset-0 size-full" />
        <p className="absolute inset-x-0 bottom-0 bg-black/60 px-3 py-2 text-center text-s text-white">
          {texts.noPreview}
        </p>
      </MediaBox>
    );
  }
  if (before !== null && before.kind === after.kind)
    return <BeforeAfter before={before} after={after} isExample maxHeight={HEIGHT} />;
  return (
    <MediaBox ratio={ratioOf(after)} maxHeight={HEIGHT}>
      <LoopingClip media={after} />
    </MediaBox>
  );
}
