import { Field, Segments, Select } from "@/design";
import type { Shared } from "./fields";
import { choiceLabel, type PlainValue } from "./values";

// Maximum number of letters that fit side by side in a narrow panel.
const MAX_SEGMENTS = 4;
const MAX_CHARACTERS = 32;

interface Props extends Shared {
  value: PlainValue | null;
  choices: readonly PlainValue[];
  onChange: (value: PlainValue) => void;
}

export function ChoiceField({ value, choices, onChange, ...shared }: Props) {
  // Values may be numbers, so the comparison uses JSON.
  const named = choices.map((choice) => ({ value: JSON.stringify(choice), label: choiceLabel(choice) }));
  const chosen = JSON.stringify(value);
  const change = (next: string) => onChange(JSON.parse(next) as PlainValue);
  const isShort =
    named.length <= MAX_SEGMENTS && named.reduce((sum, each) => sum + each.label.length, 0) <= MAX_CHARACTERS;
  return (
    <Field {...shared}>
      {isShort ? (
        <Segments value={chosen} choices={named} onChange={change} label={shared.label} className="w-full *:grow" />
      ) : (
        <Select value={chosen} choices={named} onChange={change} />
      )}
    </Field>
  );
}
