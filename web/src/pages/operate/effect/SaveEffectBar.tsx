import { explain, fieldReason, hasStatus } from "@/api/problems";
import { Button } from "@/design";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import type { EffectEditing } from "./useEffectDraft";

/** The bar stays visible on the whole page while there are unsaved changes. */
export function SaveEffectBar({ editing: { save, send, discard, reload } }: { editing: EffectEditing }) {
  const isOutdated = hasStatus(save.error, 409) && fieldReason(save.error, "version") !== null;
  return (
    <section
      aria-label={texts.unsaved}
      className="appear sticky bottom-[calc(4rem+env(safe-area-inset-bottom))] z-20 mt-6 grid gap-2 rounded-m border bg-panel/95 px-4 py-3 shadow-high backdrop-blur-md md:bottom-4"
    >
      {save.error !== null && (
        <p role="alert" className="text-s text-bad [overflow-wrap:anywhere]">
          {isOutdated ? texts.changedByOther : explain(save.error)}
        </p>
      )}
      <div className="flex flex-wrap items-center justify-between gap-3">
        <p className="font-[550]">{texts.unsaved}</p>
        <div className="flex gap-2">
          <Button onClick={discard}>{texts.discard}</Button>
          {isOutdated ? (
            <Button look="go" onClick={() => void reload()}>
              {texts.reload}
            </Button>
          ) : (
            <Button look="go" busy={save.isPending} onClick={send}>
              {texts.save}
            </Button>
          )}
        </div>
      </div>
    </section>
  );
}
