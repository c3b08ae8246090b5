import { Slider as Radix } from "radix-ui";
import { useFieldProps } from "./Field";

interface Props {
  value: number;
  min: number;
  max: number;
  step?: number;
  onChange: (value: number) => void;
  label: string;
  /** The value in words, if the number alone says little. */
  valueText?: string;
  disabled?: boolean;
}

export function Slider({ value, min, max, step = 1, onChange, label, valueText, disabled }: Props) {
  const { id: _id, ...field } = useFieldProps() as { id?: string };
  return (
    <Radix.Root
      value={[value]}
      min={min}
      max={max}
      step={step}
      disabled={disabled}
      onValueChange={([chosen]) => chosen !== undefined && onChange(chosen)}
      className="relative flex h-9 touch:h-11 w-full touch-none items-center select-none"
    >
      <Radix.Track className="relative h-1.5 grow rounded-full bg-line">
        <Radix.Range className="absolute h-full rounded-full bg-accent" />
      </Radix.Track>
      <Radix.Thumb
        aria-label={label}
        aria-valuetext={valueText}
        {...field}
        className="block size-4 touch:size-6 rounded-full border-2 border-accent bg-panel shadow-panel transition-transform hover:scale-110"
      />
    </Radix.Root>
  );
}
