import { ToggleGroup } from "radix-ui";
import { classes } from "./classes";
import type { Choice } from "./Select";

interface Props<Value extends string> {
  value: Value;
  choices: readonly Choice<Value>[];
  onChange: (value: Value) => void;
  label: string;
  className?: string;
}

/** A few choices side by side. Exactly one is selected. */
export function Segments<Value extends string>({ value, choices, onChange, label, className }: Props<Value>) {
  return (
    <ToggleGroup.Root
      type="single"
      value={value}
      // Radix sends an empty value if the user presses the selected choice again.
      onValueChange={(chosen) => chosen && onChange(chosen as Value)}
      aria-label={label}
      className={classes("inline-flex max-w-full flex-wrap rounded-s border bg-hover p-0.5", className)}
    >
      {choices.map((choice) => (
        <ToggleGroup.Item
          key={choice.value}
          value={choice.value}
          className="min-h-7 touch:min-h-10 rounded-[5px] px-3 text-s text-muted transition-colors duration-100 hover:text-text data-[state=on]:bg-panel data-[state=on]:font-[550] data-[state=on]:text-text data-[state=on]:shadow-panel"
        >
          {choice.label}
        </ToggleGroup.Item>
      ))}
    </ToggleGroup.Root>
  );
}
