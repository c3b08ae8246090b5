import { classes, Field, Input, Textarea } from "@/design";
import { formTexts } from "@/texts/form";
import type { Shared } from "./fields";
import { useTemplates } from "./templates";

// Longer texts get several lines.
const ONE_LINE = 80;
const NEARLY_FULL = 0.9;
// For a high limit, the counter appears only near it.
const MUCH_TEXT = 5_000;

interface Props extends Shared {
  value: string;
  maxLength?: number | null;
  onChange: (value: string) => void;
  isLine?: boolean;
  type?: "text" | "url";
  placeholder?: string;
}

export function TextField({
  value,
  maxLength,
  onChange,
  isLine = maxLength != null && maxLength <= ONE_LINE,
  type = "text",
  placeholder,
  ...shared
}: Props) {
  const templates = useTemplates();
  // The server counts an emoji as one character, so this does too.
  const used = [...value].length;
  const counter = maxLength != null && ((!isLine && maxLength <= MUCH_TEXT) || used > maxLength / 2) && (
    <span className={classes(used > maxLength ? "font-[550] text-bad" : used > maxLength * NEARLY_FULL && "text-warn")}>
      {formTexts.counter(used, maxLength)}
    </span>
  );
  return (
    <Field {...shared} aside={counter || undefined}>
      {templates !== null ? (
        <templates.Control value={value} isLine={isLine} placeholder={placeholder} onChange={onChange} />
      ) : isLine ? (
        <Input
          type={type}
          value={value}
          placeholder={placeholder}
          autoComplete="off"
          onChange={(event) => onChange(event.target.value)}
        />
      ) : (
        <Textarea value={value} placeholder={placeholder} onChange={(event) => onChange(event.target.value)} />
      )}
    </Field>
  );
}
