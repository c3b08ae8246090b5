import { Check, ChevronDown } from "lucide-react";
import { Select as Radix } from "radix-ui";
import { classes } from "./classes";
import { useFieldProps } from "./Field";

export interface Choice<Value extends string = string> {
  value: Value;
  label: string;
}

interface Props<Value extends string> {
  value: Value;
  choices: readonly Choice<Value>[];
  onChange: (value: Value) => void;
  /** Label for a select outside of a Field. */
  label?: string;
  disabled?: boolean;
  className?: string;
}

export function Select<Value extends string>({ value, choices, onChange, label, disabled, className }: Props<Value>) {
  return (
    <Radix.Root value={value} onValueChange={(chosen) => onChange(chosen as Value)} disabled={disabled}>
      <Radix.Trigger
        className={classes("control flex items-center justify-between gap-2 text-left", className)}
        aria-label={label}
        {...useFieldProps()}
      >
        <span className="truncate">
          <Radix.Value />
        </span>
        <Radix.Icon>
          <ChevronDown size={16} className="text-muted" />
        </Radix.Icon>
      </Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          position="popper"
          sideOffset={4}
          className="appear z-50 max-h-80 min-w-(--radix-select-trigger-width) overflow-hidden rounded-m border bg-panel shadow-high"
        >
          <Radix.Viewport className="p-1">
            {choices.map((choice) => (
              <Radix.Item
                key={choice.value}
                value={choice.value}
                className="flex min-h-8 touch:min-h-11 cursor-default items-center justify-between gap-4 rounded-s px-2.5 outline-none select-none data-highlighted:bg-hover"
              >
                <Radix.ItemText>{choice.label}</Radix.ItemText>
                <Radix.ItemIndicator>
                  <Check size={14} className="text-accent" />
                </Radix.ItemIndicator>
              </Radix.Item>
            ))}
          </Radix.Viewport>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
