import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useId } from "react";
import { Field, Textarea } from "@/design";
import { FormField } from "@/parts/form/FormField";
import { effectRecordsQuery } from "@/parts/workflow/queries";
import { WorkflowSelect } from "@/parts/workflow/WorkflowSelect";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import { FormulaField, PriceField } from "./PriceFields";
import type { EffectEditing } from "./useEffectDraft";

export function EffectFields({ editing, mayChange }: { editing: EffectEditing; mayChange: boolean }) {
  const { values, set, reasonOf } = editing;
  const effects = useQuery(effectRecordsQuery());
  const known = useId();
  const categories = [...new Set((effects.data ?? []).map((each) => each.category).filter(Boolean))].sort();
  const text = { form: editing, autoComplete: "off" };
  return (
    <fieldset disabled={!mayChange} className="panel grid min-w-0 gap-5 p-4 sm:p-5">
      <legend className="sr-only">{texts.details}</legend>
      <div className="grid items-start gap-5 sm:grid-cols-2">
        <FormField {...text} name="name" label={texts.name} required maxLength={200} />
        <FormField
          {...text}
          name="category"
          label={texts.category}
          hint={texts.categoryHint}
          maxLength={200}
          list={known}
        />
      </div>
      <datalist id={known}>
        {categories.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <Field label={texts.description} error={reasonOf("description")}>
        <Textarea
          rows={2}
          value={values.description}
          maxLength={2000}
          onChange={(event) => set({ description: event.target.value })}
        />
      </Field>
      <div className="grid items-start gap-5 sm:grid-cols-2">
        <Field
          label={texts.workflow}
          error={reasonOf("workflow")}
          aside={
            <Link
              to="/operate/workflows/$slug"
              params={{ slug: values.workflow }}
              className="hover:text-text hover:underline"
            >
              {texts.openWorkflow}
            </Link>
          }
        >
          <WorkflowSelect value={values.workflow} disabled={!mayChange} onChange={(workflow) => set({ workflow })} />
        </Field>
        <PriceField editing={editing} />
        <FormulaField editing={editing} />
        <FormField {...text} name="provider" label={texts.provider} spellCheck={false} />
        <FormField {...text} name="stage" label={texts.stage} spellCheck={false} />
      </div>
    </fieldset>
  );
}
