import { ChevronRight } from "lucide-react";
import { useState } from "react";
import { ApiError } from "@/api/problems";
import type { Schemas } from "@/api/types";
import { Button, Field, Select } from "@/design";
import { FormField } from "@/parts/form/FormField";
import { initialOf, payloadOf, type Schema, withValue } from "@/parts/form/schema";
import { useForm } from "@/parts/form/useForm";
import { PlanText } from "@/parts/PlanText";
import { Refusal } from "@/parts/Refusal";
import { SchemaForm } from "@/parts/SchemaForm";
import { fleetsTexts, fleetTexts } from "@/texts/fleets";
import {
  draftOf,
  MORE_RULES,
  type NumberRule,
  problemsIn,
  requestOf,
  type ScalingDraft,
  scalingPlan,
} from "./scaling-draft";
import { useSetScaling } from "./useFleetActions";

type Driver = Schemas["ScalingDriver"];
const texts = fleetTexts.scaling;

interface Props {
  fleet: Schemas["Fleet"];
  /** null: the fleet is not scaled yet. */
  rules: Schemas["FleetScaling"] | null;
  drivers: readonly Driver[];
  onClose: () => void;
}

export function ScalingForm({ fleet, rules: given, drivers, onClose }: Props) {
  // The rules at the time when the form opened.
  const [rules] = useState(given);
  const [saved] = useState(() => draftOf(rules, drivers[0]?.name ?? "", initialOptions(drivers[0])));
  const driverOf = (name: string) => drivers.find((each) => each.name === name);
  const save = useSetScaling(fleet.id, onClose);
  const refused = optionReasons(save.error);
  const form = useForm({
    saved,
    save,
    body: (draft) => {
      const schema = schemaOf(driverOf(draft.driver));
      return requestOf(draft, payloadOf(schema, schema, draft.options));
    },
    check: problemsIn,
    fields: Object.keys(refused).map((name) => `options.${name}`),
  });
  const draft = form.values;
  const driver = driverOf(draft.driver);
  const schema = schemaOf(driver);
  const plan = scalingPlan(draft, fleet, rules);
  const change = (part: Partial<ScalingDraft>) => {
    form.forget();
    form.set(part);
  };
  const choose = (name: string) =>
    change({
      driver: name,
      options: rules?.driver === name ? (rules.options as typeof draft.options) : initialOptions(driverOf(name)),
    });
  const number = (name: NumberRule, label: string, hint?: string) => (
    <FormField key={name} form={{ ...form, set: change }} name={name} label={label} hint={hint} inputMode="decimal" />
  );
  return (
    <form onSubmit={form.submit} className="grid gap-4" noValidate>
      <Field label={texts.driver} hint={driver?.about} error={form.reasonOf("driver")}>
        <Select
          value={draft.driver}
          choices={drivers.map((each) => ({ value: each.name, label: each.name }))}
          onChange={choose}
        />
      </Field>
      <div className="grid items-start gap-4 sm:grid-cols-2">
        {number("minimum", texts.minimum)}
        {number("maximum", texts.maximum)}
        {number("target_seconds", texts.target, texts.targetHint)}
        {number("idle_seconds", texts.idle, texts.idleHint)}
      </div>
      <fieldset className="grid min-w-0 gap-4 rounded-m border p-4">
        <legend className="-ml-1 px-1 text-s font-[550]">{texts.options}</legend>
        <SchemaForm
          key={draft.driver}
          schema={schema}
          value={draft.options}
          onChange={(path, next) => change({ options: withValue(draft.options, path, next) })}
          problems={refused}
        />
      </fieldset>
      <details className="group" open={[...MORE_RULES, "providers"].some((name) => form.reasonOf(name)) || undefined}>
        <summary className="flex min-h-8 touch:min-h-11 list-none items-center gap-1 text-s text-muted hover:text-text">
          <ChevronRight size={14} aria-hidden className="transition-transform duration-100 group-open:rotate-90" />
          {texts.more}
        </summary>
        <div className="grid items-start gap-4 pt-2 sm:grid-cols-2">
          {MORE_RULES.map((name) => number(name, texts.fields[name]))}
          <FormField
            form={{ ...form, set: change }}
            name="providers"
            label={texts.fields.providers}
            hint={texts.providersHint}
          />
        </div>
      </details>
      {plan.length > 0 && <PlanText label={fleetsTexts.plan.label} sentences={plan} />}
      {rules && <p className="text-s text-muted">{texts.again}</p>}
      <Refusal error={form.refusal} />
      <Button type="submit" look="go" busy={form.isBusy} disabled={!form.isValid}>
        {fleetTexts.save}
      </Button>
    </form>
  );
}

function schemaOf(driver: Driver | undefined): Schema {
  return (driver?.options ?? {}) as Schema;
}

function initialOptions(driver: Driver | undefined) {
  return initialOf(schemaOf(driver), schemaOf(driver));
}

/** Reasons of the API per option name, for the form of the options. */
function optionReasons(error: unknown): Record<string, string> {
  const fields = error instanceof ApiError ? (error.problem.errors ?? []) : [];
  return Object.fromEntries(
    fields
      .filter((each) => each.field.startsWith("options."))
      .map((each) => [each.field.slice("options.".length).split(".")[0] ?? "", each.reason]),
  );
}
