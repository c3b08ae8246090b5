import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { ImageOff } from "lucide-react";
import { hasStatus } from "@/api/problems";
import { Badge, Empty, PageHead } from "@/design";
import { BackLink } from "@/parts/BackLink";
import { JobsLink } from "@/parts/JobsLink";
import { LinkButton } from "@/parts/LinkButton";
import { Pending } from "@/parts/Pending";
import { useRole } from "@/parts/useRole";
import { useTitle } from "@/parts/useTitle";
import { priceOf } from "@/parts/workflow/price";
import { type EffectRecord, effectRecordQuery } from "@/parts/workflow/queries";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import { EffectActions } from "./EffectActions";
import { EffectFields } from "./EffectFields";
import { PreviewPanel } from "./PreviewPanel";
import { SaveEffectBar } from "./SaveEffectBar";
import { useEffectDraft } from "./useEffectDraft";
import { ValuesPanel } from "./ValuesPanel";

export function EffectRecordPage() {
  const { slug } = useParams({ from: "/framed/operator/operate/effects/$slug" });
  const effect = useQuery(effectRecordQuery(slug));
  useTitle(effect.data?.name ?? slug);
  if (hasStatus(effect.error, 404)) {
    return (
      <Empty
        isPage
        icon={<ImageOff size={20} />}
        title={texts.notFound}
        text={texts.notFoundText}
        action={<LinkButton to="/operate/effects">{texts.back}</LinkButton>}
      />
    );
  }
  if (effect.data !== undefined) return <Editor key={slug} effect={effect.data} />;
  return <Pending query={effect} className="h-96" />;
}

function Editor({ effect }: { effect: EffectRecord }) {
  const { mayOperate: mayChange } = useRole();
  const editing = useEffectDraft(effect);
  return (
    <>
      <PageHead
        above={<BackLink to="/operate/effects" label={texts.back} />}
        title={effect.name}
        text={
          <span className="flex flex-wrap items-center gap-2">
            {effect.is_published ? <Badge tone="ok">{texts.published}</Badge> : <Badge>{texts.draft}</Badge>}
            <code className="[overflow-wrap:anywhere]">{effect.slug}</code>
            <span className="num">{priceOf(effect)}</span>
          </span>
        }
        actions={
          <>
            <JobsLink search={{ effect: effect.slug }} />
            <EffectActions effect={effect} mayChange={mayChange} isDirty={editing.isChanged} />
          </>
        }
      />
      <div className="grid items-start gap-6 lg:grid-cols-[minmax(0,1fr)_minmax(20rem,28rem)]">
        <div className="grid min-w-0 gap-6">
          <EffectFields editing={editing} mayChange={mayChange} />
          <ValuesPanel editing={editing} mayChange={mayChange} />
        </div>
        <PreviewPanel effect={effect} mayChange={mayChange} />
      </div>
      {editing.isChanged && mayChange && <SaveEffectBar editing={editing} />}
    </>
  );
}
