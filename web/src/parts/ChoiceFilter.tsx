import { type Choice, Select } from "@/design";

// No value of the API is empty or has this text.
const ANY = "*";

interface Props<Value extends string> {
  label: string;
  /** Text of the choice that filters nothing. */
  any: string;
  value: Value | undefined;
  choices: readonly Choice<Value>[];
  onChange: (value: Value | undefined) => void;
  className?: string;
}

/** A filter with one choice. A link may still filter by a value that is no longer a choice. */
export function ChoiceFilter<Value extends string>({ label, any, value, choices, onChange, className }: Props<Value>) {
  const isKnown = value === undefined || choices.some((each) => each.value === value);
  const other = isKnown ? [] : [{ value, label: value }];
  return (
    <Select<Value | typeof ANY>
      label={label}
      className={className}
      value={value ?? ANY}
      choices={[{ value: ANY, label: any }, ...choices, ...other]}
      onChange={(chosen) => onChange(chosen === ANY ? undefined : chosen)}
    />
  );
}
