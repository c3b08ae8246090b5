import { Switch } from "@/design";
import { type FormValue, type FormValues, labelOf } from "@/parts/form/values";
import { PropertyForm } from "@/parts/PropertyForm";
import { editorTexts } from "@/texts/pipelines";
import { type StepDraft, type StepWorkflow, valueAt } from "./draft";

interface Props {
  step: StepDraft;
  info: StepWorkflow;
  isFirst: boolean;
  /** Reasons per field of the step. */
  problems: Record<string, string>;
  onChange: (change: Partial<StepDraft>) => void;
}

/** Properties that a step can set. Each image gets a random seed unless the step sets one. */
export function WorkflowFields({ step, info, isFirst, problems, onChange }: Props) {
  const hasOwnSeed = info.seed_property != null && step.values[info.seed_property] !== undefined;
  const shown = info.properties.filter((each) => each.key !== info.seed_property || hasOwnSeed);
  const values: FormValues = Object.fromEntries(shown.map((each) => [each.key, valueAt(step, info, each.key)]));
  const ofValues = Object.fromEntries(
    Object.entries(problems).flatMap(([field, reason]) =>
      field.startsWith("values.") ? [[field.slice("values.".length), reason]] : [],
    ),
  );
  const change = (key: string, value: FormValue) => {
    const { [key]: _before, ...rest } = step.values;
    const isDefault =
      value === null ||
      (key !== info.prompt_property && value === (info.properties.find((each) => each.key === key)?.default ?? null));
    onChange({ values: isDefault || typeof value === "object" ? rest : { ...rest, [key]: value } });
  };
  const notes = [
    info.takes_image && !isFirst ? editorTexts.parentNote : null,
    info.seed_property != null && !hasOwnSeed ? editorTexts.seedNote : null,
  ].filter((each) => each !== null);
  return (
    <>
      {shown.length > 0 && (
        <div className="grid gap-5">
          <PropertyForm
            name={`step:${step.key}`}
            properties={shown.map((each) => ({ ...each, label: labelOf(each) }))}
            values={values}
            onChange={change}
            problems={ofValues}
            onPending={() => undefined}
          />
        </div>
      )}
      {notes.length > 0 && <p className="text-s text-muted">{notes.join(" ")}</p>}
      {step.takesVariables && (
        <label className="flex min-h-9 items-center justify-between gap-3 text-s">
          {editorTexts.takesVariables}
          <Switch
            checked={step.takesVariables}
            onChange={(takesVariables) => onChange({ takesVariables })}
            label={editorTexts.takesVariables}
          />
        </label>
      )}
    </>
  );
}
