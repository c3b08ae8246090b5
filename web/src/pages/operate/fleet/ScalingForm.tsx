import { ChevronRight } from "lucide-react";
import { type FormEvent, useState } from "react";
import { ApiError, explain, fieldReason } from "@/api/problems";
import type { Schemas } from "@/api/types";
import { Button, Field, Input, Select } from "@/design";
import { initialOf, payloadOf, type Schema, withValue } from "@/parts/form/schema";
import { PlanText } from "@/parts/PlanText";
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
  const [draft, setDraft] = useState(() =>
    draftOf(rules, drivers[0]?.name ?? "", initialOf(schemaOf(drivers[0]), schemaOf(drivers[0]))),
  );
  const save = useSetScaling(fleet.id, onClose);
  const driver = drivers.find((each) => each.name === draft.driver);
  const schema = schemaOf(driver);
  const problems = problemsIn(draft);
  const plan = scalingPlan(draft, fleet, rules);
  const refused = optionReasons(save.error);
  const reasonOf = (name: string) => problems[name as NumberRule] ?? fieldReason(save.error, name);
  const shown = [
    ...Object.values(refused),
    ...["driver", "providers", ...Object.keys(draft.numbers)].map((name) => fieldReason(save.error, name)),
  ].some(Boolean);
  const change = (part: Partial<ScalingDraft>) => {
    // The refusal belongs to the values that were sent.
    save.reset();
    setDraft({ ...draft, ...part });
  };
  const choose = (name: string) => {
    const chosen = schemaOf(drivers.find((each) => each.name === name));
    change({
      driver: name,
      options: rules?.driver === name ? (rules.options as typeof draft.options) : initialOf(chosen, chosen),
    });
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (Object.keys(problems).length === 0) save.mutate(requestOf(draft, payloadOf(schema, schema, draft.options)));
  };
  const number = (name: NumberRule, label: string, hint?: string) => (
    <Field key={name} label={label} hint={hint} error={reasonOf(name)}>
      <Input
        inputMode="decimal"
        value={draft.numbers[name]}
        onChange={(event) => change({ numbers: { ...draft.numbers, [name]: event.target.value } })}
      />
    </Field>
  );
  return (
    <form onSubmit={submit} className="grid gap-4" noValidate>
      <Field label={texts.driver} hint={driver?.about} error={reasonOf("driver")}>
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
      <details
        className="group"
        open={MORE_RULES.some((name) => reasonOf(name)) || Boolean(reasonOf("providers")) || undefined}
      >
        <summary className="flex min-h-8 touch:min-h-11 list-none items-center gap-1 text-s text-muted hover:text-text">
          <ChevronRight size={14} aria-hidden className="transition-transform duration-100 group-open:rotate-90" />
          {texts.more}
        </summary>
        <div className="grid items-start gap-4 pt-2 sm:grid-cols-2">
          {MORE_RULES.map((name) => number(name, texts.fields[name]))}
          <Field label={texts.fields.providers} hint={texts.providersHint} error={reasonOf("providers")}>
            <Input value={draft.providers} onChange={(event) => change({ providers: event.target.value })} />
          </Field>
        </div>
      </details>
      {plan.length > 0 && <PlanText label={fleetsTexts.plan.label} sentences={plan} />}
      {rules && <p className="text-s text-muted">{texts.again}</p>}
      {save.error && !shown && (
        <p role="alert" className="text-s text-bad">
          {explain(save.error)}
        </p>
      )}
      <Button type="submit" look="go" busy={save.isPending} disabled={Object.keys(problems).length > 0}>
        {fleetTexts.save}
      </Button>
    </form>
  );
}

function schemaOf(driver: Driver | undefined): Schema {
  return (driver?.options ?? {}) as Schema;
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
