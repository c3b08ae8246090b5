import { Dices } from "lucide-react";
import { useEffect, useState } from "react";
import { Button, Field, Input, Slider } from "@/design";
import { formTexts } from "@/texts/form";
import type { Shared } from "./fields";

export interface NumberLimits {
  min?: number | null;
  max?: number | null;
  step?: number | null;
  integer?: boolean;
}

interface Props extends Shared {
  value: number | null;
  limits: NumberLimits;
  onChange: (value: number | null) => void;
}

// Users cannot set a slider with more steps than this by hand.
const MAX_STEPS = 5_000;
// Numbers that users do not choose by hand, such as seeds.
const MANY = 1_000_000;

/** A slider and a box if both limits are known; otherwise only a box, for example for a seed. */
export function NumberField({ value, limits, onChange, ...shared }: Props) {
  const step = stepOf(limits);
  const { min, max } = limits;
  const hasSlider = min != null && max != null && max > min && (max - min) / step <= MAX_STEPS;
  const canBeDrawn = limits.integer && min != null && max != null && max - min >= MANY;
  return (
    <Field {...shared} aside={min != null && max != null && !canBeDrawn ? formTexts.range(min, max) : undefined}>
      <div className="flex items-center gap-3">
        {hasSlider && (
          <Slider
            value={value ?? min}
            min={min}
            max={max}
            step={step}
            onChange={(next) => onChange(tidy(next, step))}
            label={shared.label}
          />
        )}
        <NumberBox
          value={value}
          step={step}
          onChange={onChange}
          className={hasSlider ? "w-20! shrink-0 text-right" : ""}
          placeholder={canBeDrawn ? formTexts.drawn : undefined}
        />
        {canBeDrawn && (
          <Button
            size="icon"
            aria-label={formTexts.random}
            title={formTexts.random}
            onClick={() => onChange(drawn(min, max))}
            icon={<Dices size={16} />}
            className="shrink-0"
          />
        )}
      </div>
    </Field>
  );
}

/** Keeps a text such as "-" or "0." until it becomes a number. */
function NumberBox({
  value,
  step,
  onChange,
  className,
  placeholder,
}: {
  value: number | null;
  step: number;
  onChange: (value: number | null) => void;
  className: string;
  placeholder: string | undefined;
}) {
  const [typed, setTyped] = useState(value === null ? "" : String(value));
  useEffect(() => setTyped((now) => (read(now) === value ? now : value === null ? "" : String(value))), [value]);
  return (
    <Input
      type="text"
      inputMode={step >= 1 ? "numeric" : "decimal"}
      autoComplete="off"
      placeholder={placeholder}
      value={typed}
      onChange={(event) => {
        const next = event.target.value;
        if (!/^-?[\d.,]*(e[+-]?\d*)?$/i.test(next)) return;
        setTyped(next);
        onChange(read(next));
      }}
      onBlur={() => setTyped(value === null ? "" : String(value))}
      className={`num ${className}`}
    />
  );
}

function read(typed: string): number | null {
  const number = Number(typed.replace(",", "."));
  return typed.trim() === "" || !Number.isFinite(number) ? null : number;
}

/** A step that is fine enough for the range, if the schema has none. */
export function stepOf({ min, max, step, integer }: NumberLimits): number {
  if (step != null) return step;
  if (integer) return 1;
  if (min == null || max == null) return 0.01;
  return max - min > 100 ? 1 : max - min > 20 ? 0.1 : max - min > 2 ? 0.05 : 0.01;
}

/** Removes the rounding digits that the addition of steps leaves. */
export function tidy(value: number, step: number): number {
  const digits = Math.min(10, Math.max(0, Math.ceil(-Math.log10(step)) + 1));
  return Number(value.toFixed(digits));
}

function drawn(min: number, max: number): number {
  const most = Math.min(max, Number.MAX_SAFE_INTEGER);
  return min + Math.floor(Math.random() * (most - min + 1));
}
