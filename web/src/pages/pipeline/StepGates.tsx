import { NewStep } from "@/api/fields";
import { Field, Switch } from "@/design";
import { BooleanField } from "@/parts/form/BooleanField";
import { NumberField } from "@/parts/form/NumberField";
import { editorTexts } from "@/texts/pipelines";
import type { StepDraft } from "./draft";

interface Props {
  step: StepDraft;
  problems: Record<string, string>;
  onChange: (change: Partial<StepDraft>) => void;
}

const BEST = 3;

/** Number of images per parent, and the gates before the next step. */
export function StepGates({ step, problems, onChange }: Props) {
  return (
    <div className="grid gap-4 border-t pt-4 sm:grid-cols-3">
      <NumberField
        label={editorTexts.children}
        hint={editorTexts.childrenHint}
        error={problems.max_children}
        value={step.max_children}
        limits={{ min: 1, integer: true }}
        onChange={(value) =>
          value !== null &&
          onChange({ max_children: Math.min(NewStep.max_children.maximum, Math.max(1, Math.round(value))) })
        }
      />
      <BooleanField
        label={editorTexts.approval}
        hint={editorTexts.approvalHint}
        error={problems.requires_approval}
        value={step.requires_approval}
        onChange={(requires_approval) => onChange({ requires_approval })}
      />
      <Field label={editorTexts.topK} hint={editorTexts.topKHint} error={problems.top_k}>
        <div className="flex min-h-9 items-center gap-3 touch:min-h-11">
          <Switch checked={step.top_k !== null} onChange={(isOn) => onChange({ top_k: isOn ? BEST : null })} />
          {step.top_k !== null && (
            <input
              aria-label={editorTexts.topKCount}
              inputMode="numeric"
              className="control num w-20! text-right"
              value={step.top_k}
              onChange={(event) =>
                onChange({
                  top_k: Math.min(
                    NewStep.top_k.maximum,
                    Math.max(1, Number(event.target.value.replace(/\D/g, "")) || 1),
                  ),
                })
              }
            />
          )}
        </div>
      </Field>
    </div>
  );
}
