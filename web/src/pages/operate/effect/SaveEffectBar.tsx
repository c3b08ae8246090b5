import { useQuery } from "@tanstack/react-query";
import { fieldReason, hasStatus, isShownBy } from "@/api/problems";
import { Button } from "@/design";
import { SaveBar } from "@/parts/SaveBar";
import { workflowQuery } from "@/parts/workflow/queries";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import type { EffectEditing } from "./useEffectDraft";

export function SaveEffectBar({ editing }: { editing: EffectEditing }) {
  const { error, values } = editing;
  const workflow = useQuery(workflowQuery(values.workflow));
  const { overrides: _overrides, ...fields } = values;
  const shown = [...Object.keys(fields), ...(workflow.data?.properties ?? []).map(({ key }) => `overrides.${key}`)];
  const isOutdated = hasStatus(error, 409) && fieldReason(error, "version") !== null;
  const refusal = isShownBy(error, shown) ? texts.notSaved : error;
  return (
    <SaveBar
      label={texts.unsaved}
      refusal={isOutdated ? texts.changedByOther : refusal}
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
