import { useEffect, useState } from "react";
import { Input } from "@/design";
import { ExactNumber } from "./exact";

interface Props {
  value: number | ExactNumber | null;
  onChange: (value: number | ExactNumber | null) => void;
  label?: string;
  disabled?: boolean;
}

/** A number of any size. It keeps a text such as "-" or "0." until it becomes a number. */
export function NumberInput({ value, onChange, label, disabled }: Props) {
  const shown = value === null ? "" : String(value);
  const [typed, setTyped] = useState(shown);
  useEffect(() => setTyped((now) => (String(read(now) ?? "") === shown ? now : shown)), [shown]);
  return (
    <Input
      inputMode="decimal"
      autoComplete="off"
      className="num"
      aria-label={label}
      disabled={disabled}
      value={typed}
      onChange={(event) => {
        const next = event.target.value;
        if (!/^-?[\d.]*(e[+-]?\d*)?$/i.test(next)) return;
        setTyped(next);
        onChange(read(next));
      }}
      onBlur={() => setTyped(shown)}
    />
  );
}

function read(typed: string): number | ExactNumber | null {
  const number = Number(typed);
  if (typed.trim() === "" || !Number.isFinite(number)) return null;
  return /^-?\d+$/.test(typed) && !Number.isSafeInteger(number) ? new ExactNumber(typed) : number;
}
