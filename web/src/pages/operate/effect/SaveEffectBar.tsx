import { fieldReason, hasStatus } from "@/api/problems";
import { Button } from "@/design";
import { SaveBar } from "@/parts/SaveBar";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import type { EffectEditing } from "./useEffectDraft";

export function SaveEffectBar({ editing }: { editing: EffectEditing }) {
  const { error } = editing;
  const isOutdated = hasStatus(error, 409) && fieldReason(error, "version") !== null;
  return (
    <SaveBar
      label={texts.unsaved}
      refusal={isOutdated ? texts.changedByOther : error}
      actions={
        <>
          <Button onClick={editing.discard}>{texts.discard}</Button>
          {isOutdated ? (
            <Button look="go" onClick={() => void editing.reload()}>
              {texts.reload}
            </Button>
          ) : (
            <Button look="go" busy={editing.isBusy} onClick={() => editing.submit()}>
              {texts.save}
            </Button>
          )}
        </>
      }
    >
      <span className="font-[550]">{texts.unsaved}</span>
    </SaveBar>
  );
}
