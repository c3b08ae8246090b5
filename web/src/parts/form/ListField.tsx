import { Field, Textarea } from "@/design";
import { formTexts } from "@/texts/form";
import type { Shared } from "./fields";

interface Props extends Shared {
  value: readonly string[];
  onChange: (value: string[]) => void;
}

/** Several short texts, one per line. */
export function ListField({ value, onChange, hint, ...shared }: Props) {
  return (
    <Field {...shared} hint={hint ? `${hint} ${formTexts.oneBelow}` : formTexts.oneBelow}>
      <Textarea
        rows={2}
        value={value.join("\n")}
        onChange={(event) => onChange(event.target.value === "" ? [] : event.target.value.split("\n"))}
      />
    </Field>
  );
}
