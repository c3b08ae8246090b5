import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useId } from "react";
import { fieldReason } from "@/api/problems";
import { Field, Input, Select, Textarea } from "@/design";
import { NumberInput } from "@/parts/workflow/NumberInput";
import { effectRecordsQuery, workflowChoicesQuery } from "@/parts/workflow/queries";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import type { EffectEditing } from "./useEffectDraft";

export function EffectFields({
  editing: { draft, set, save },
  mayChange,
}: {
  editing: EffectEditing;
  mayChange: boolean;
}) {
  const workflows = useQuery(workflowChoicesQuery);
  const effects = useQuery(effectRecordsQuery());
  const known = useId();
  const categories = [...new Set((effects.data ?? []).map((each) => each.category).filter(Boolean))].sort();
  const reason = (field: string) => fieldReason(save.error, field);
  const names = (workflows.data ?? []).map((each) => ({
    value: each.slug,
    label: each.name === each.slug ? each.slug : `${each.name} (${each.slug})`,
  }));
  const choices = names.some((each) => each.value === draft.workflow)
    ? names
    : [{ value: draft.workflow, label: draft.workflow }, ...names];
  return (
    <fieldset disabled={!mayChange} className="panel grid min-w-0 gap-5 p-4 sm:p-5">
      <legend className="sr-only">{texts.details}</legend>
      <div className="grid items-start gap-5 sm:grid-cols-2">
        <Field label={texts.name} required error={reason("name")}>
          <Input
            value={draft.name}
            maxLength={200}
            autoComplete="off"
            onChange={(event) => set({ name: event.target.value })}
          />
        </Field>
        <Field label={texts.category} hint={texts.categoryHint} error={reason("category")}>
          <Input
            value={draft.category}
            maxLength={200}
            list={known}
            autoComplete="off"
            onChange={(event) => set({ category: event.target.value })}
          />
        </Field>
      </div>
      <datalist id={known}>
        {categories.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <Field label={texts.description} error={reason("description")}>
        <Textarea
          rows={2}
          value={draft.description}
          maxLength={2000}
          onChange={(event) => set({ description: event.target.value })}
        />
      </Field>
      <div className="grid items-start gap-5 sm:grid-cols-2">
        <Field
          label={texts.workflow}
          error={reason("workflow")}
          aside={
            <Link
              to="/operate/workflows/$slug"
              params={{ slug: draft.workflow }}
              className="hover:text-text hover:underline"
            >
              {texts.openWorkflow}
            </Link>
          }
        >
          <Select
            value={draft.workflow}
            disabled={!mayChange}
            choices={choices}
            onChange={(workflow) => set({ workflow })}
          />
        </Field>
        <Field label={texts.price} hint={texts.priceHint} error={reason("credits_cost")}>
          <NumberInput value={draft.credits_cost} onChange={(value) => set({ credits_cost: Number(value ?? 0) })} />
        </Field>
        <Field label={texts.provider} error={reason("provider")}>
          <Input
            value={draft.provider}
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => set({ provider: event.target.value })}
          />
        </Field>
        <Field label={texts.stage} error={reason("stage")}>
          <Input
            value={draft.stage}
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => set({ stage: event.target.value })}
          />
        </Field>
      </div>
    </fieldset>
  );
}
