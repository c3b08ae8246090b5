import { Checkbox, Field, Input, Textarea } from "@/design";
import { choiceLabel, labelOf, type PlainValue, type Property } from "@/parts/form/values";
import { gridTexts as texts } from "@/texts/grid";
import { type List, valuesOf } from "./grid";

interface Props {
  property: Property;
  list: List | undefined;
  error?: string;
  onChange: (list: List) => void;
}

/** Several values of one property: lines, numbers or choices. */
export function ListField({ property, list, error, onChange }: Props) {
  const count = valuesOf(property, list).length;
  const shared = {
    label: labelOf(property),
    required: property.required,
    error,
    aside: count > 0 ? texts.values(count) : undefined,
  };
  const typed = typeof list === "string" ? list : "";
  if (property.type === "text")
    return (
      <Field {...shared} hint={texts.lines}>
        <Textarea value={typed} rows={3} onChange={(event) => onChange(event.target.value)} />
      </Field>
    );
  if (property.type === "number")
    return (
      <Field {...shared} hint={texts.numbers}>
        <Input
          value={typed}
          autoComplete="off"
          spellCheck={false}
          className="num"
          onChange={(event) => onChange(event.target.value)}
        />
      </Field>
    );
  const choices = property.type === "boolean" ? [true, false] : (property.limits.choices ?? []);
  return <Choices {...shared} choices={choices} chosen={Array.isArray(list) ? list : []} onChange={onChange} />;
}

interface ChoicesProps {
  label: string;
  aside?: string;
  error?: string;
  choices: readonly PlainValue[];
  chosen: readonly PlainValue[];
  onChange: (chosen: PlainValue[]) => void;
}

function Choices({ label, aside, error, choices, chosen, onChange }: ChoicesProps) {
  return (
    <fieldset className="grid min-w-0 gap-1.5">
      <legend className="mb-1.5 flex w-full items-baseline justify-between gap-3 text-s font-[550]">
        {label}
        <span className="num text-xs font-normal text-muted">{aside}</span>
      </legend>
      <div className="flex flex-wrap gap-2">
        {choices.map((choice) => (
          <label
            key={JSON.stringify(choice)}
            className="flex min-h-9 cursor-pointer items-center gap-2 rounded-s border px-3 text-s hover:bg-hover has-checked:border-accent touch:min-h-11"
          >
            <Checkbox
              checked={chosen.includes(choice)}
              // In the order of the choices, whatever was pressed first.
              onChange={(event) =>
                onChange(choices.filter((each) => (each === choice ? event.target.checked : chosen.includes(each))))
              }
            />
            {typeof choice === "boolean" ? (choice ? texts.on : texts.off) : choiceLabel(choice)}
          </label>
        ))}
      </div>
      {error ? (
        <p role="alert" className="text-s text-bad">
          {error}
        </p>
      ) : (
        <p className="text-s text-muted">{texts.choices}</p>
      )}
    </fieldset>
  );
}
