import { Field, Select } from "@/design";
import { type Actor, schemaOf, variantLabel, variantOf } from "@/parts/actors";
import { JsonField } from "@/parts/form/JsonField";
import { type Json, type Path, payloadOf, type Schema, withValue } from "@/parts/form/schema";
import { Refusal } from "@/parts/Refusal";
import { SchemaForm } from "@/parts/SchemaForm";
import { editorTexts } from "@/texts/pipelines";
import { type Payload, type StepDraft, startPayload } from "./draft";

interface Props {
  step: StepDraft;
  actor: Actor;
  isFirst: boolean;
  problems: Record<string, string>;
  onChange: (change: Partial<StepDraft>) => void;
}

/** The payload of an actor, in a form from its schema. */
export function ActorFields({ step, actor, isFirst, problems, onChange }: Props) {
  const payload = step.payload ?? {};
  const variants = actor.variants ?? [];
  const variant = variantOf(actor, undefined, payload);
  const schema = schemaOf(actor, variant);
  const constants = (variant?.values ?? {}) as Payload;
  const ofPayload = Object.fromEntries(
    Object.entries(problems).flatMap(([field, reason]) =>
      field.startsWith("payload.") ? [[field.slice("payload.".length), reason]] : [],
    ),
  );
  const change = (path: Path, next: Json | undefined) =>
    onChange({ payload: sent(schema!, withValue(payload, path, next), constants) });
  const choose = (title: string) => {
    const chosen = variants.find((each) => each.title === title);
    if (chosen)
      onChange({ payload: startPayload(chosen.payload_schema as Schema, chosen.values as Payload, !isFirst) });
  };
  return (
    <div className="grid gap-5">
      {variants.length > 1 && variant && (
        <Field label={editorTexts.variant}>
          <Select
            value={variant.title}
            choices={variants.map((each) => ({ value: each.title, label: variantLabel(each.title) }))}
            onChange={choose}
          />
        </Field>
      )}
      {schema ? (
        <SchemaForm schema={schema} value={payload} onChange={change} problems={ofPayload} />
      ) : (
        <JsonField
          key={step.key}
          label={editorTexts.payload}
          hint={editorTexts.payloadHint}
          value={payload}
          onChange={(next) => onChange({ payload: (next ?? {}) as Payload })}
        />
      )}
      <Refusal error={problems.payload} />
    </div>
  );
}

/** Removes empty fields. Fields that the schema does not know stay: a file may have declared them. */
function sent(schema: Schema, value: Json, constants: Payload): Payload {
  const known = payloadOf(schema, schema, value);
  const other = Object.entries(value as Payload).filter(([name]) => schema.properties?.[name] === undefined);
  return { ...Object.fromEntries(other), ...known, ...constants };
}
