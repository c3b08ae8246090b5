import { useState } from "react";
import { Field, Textarea } from "@/design";
import { BooleanField } from "@/parts/form/BooleanField";
import type { Property } from "@/parts/workflow/draft";
import { ExactNumber, parseExact } from "@/parts/workflow/exact";
import { NumberInput } from "@/parts/workflow/NumberInput";
import { workflowsTexts } from "@/texts/workflows";

const texts = workflowsTexts.property;
const MEGABYTE = 1_000_000;
type Limits = NonNullable<Property["limits"]>;

interface Props {
  property: Property;
  problems: ReadonlyMap<string, string>;
  isReadOnly: boolean;
  onChange: (limits: Limits) => void;
}

/** The limits of this type. */
export function LimitFields({ property, problems, isReadOnly, onChange }: Props) {
  const limits = property.limits ?? {};
  const number = (name: keyof Limits, label: string, scale = 1) => {
    const value = limits[name] as number | null | undefined;
    return (
      <Field label={label} error={problems.get(`limits.${name}`)}>
        <NumberInput
          value={value == null ? null : scale === 1 ? value : value / scale}
          onChange={(next) =>
            onChange({ [name]: next === null ? null : scale === 1 ? next : Math.round(Number(next) * scale) } as Limits)
          }
        />
      </Field>
    );
  };
  switch (property.type) {
    case "number":
      return (
        <div className="grid items-start gap-4 sm:grid-cols-3">
          {number("min", texts.min)}
          {number("max", texts.max)}
          {number("step", texts.step)}
          <BooleanField
            label={texts.integer}
            value={limits.integer ?? false}
            disabled={isReadOnly}
            onChange={(value) => onChange({ integer: value })}
          />
        </div>
      );
    case "text":
      return <div className="grid items-start gap-4 sm:grid-cols-3">{number("max_length", texts.maxLength)}</div>;
    case "choice":
      return (
        <Choices
          choices={limits.choices ?? []}
          error={problems.get("limits.choices")}
          onChange={(choices) => onChange({ choices })}
        />
      );
    case "image":
      return (
        <div className="grid items-start gap-4 sm:grid-cols-3">{number("max_bytes", texts.maxBytes, MEGABYTE)}</div>
      );
    case "video":
    case "audio":
      return (
        <div className="grid items-start gap-4 sm:grid-cols-3">
          {number("max_bytes", texts.maxBytes, MEGABYTE)}
          {number("max_seconds", texts.maxSeconds)}
        </div>
      );
    default:
      return null;
  }
}

type Choice = boolean | number | string;

/** One value per line. Numbers stay numbers if all values were numbers. */
function Choices({
  choices,
  error,
  onChange,
}: {
  choices: readonly Choice[];
  error?: string;
  onChange: (choices: Choice[] | null) => void;
}) {
  const areNumbers =
    choices.length > 0 && choices.every((each) => typeof each === "number" || (each as unknown) instanceof ExactNumber);
  const [typed, setTyped] = useState(() => choices.map(String).join("\n"));
  const change = (text: string) => {
    setTyped(text);
    const lines = text
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => line !== "");
    const read = lines.map((line) =>
      areNumbers && /^-?\d+(\.\d+)?$/.test(line) ? (parseExact(line) as number) : line,
    );
    onChange(read.length === 0 ? null : read);
  };
  return (
    <Field label={texts.choices} hint={texts.choicesHint} error={error}>
      <Textarea rows={3} value={typed} spellCheck={false} onChange={(event) => change(event.target.value)} />
    </Field>
  );
}
