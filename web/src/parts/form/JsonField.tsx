import { useState } from "react";
import { Field, Textarea } from "@/design";
import { formTexts } from "@/texts/form";
import type { Shared } from "./fields";
import type { Json } from "./schema";

interface Props extends Shared {
  value: Json | undefined;
  onChange: (value: Json | undefined) => void;
}

/** Fallback for schemas without a dedicated field. */
export function JsonField({ value, onChange, error, ...shared }: Props) {
  const [typed, setTyped] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)));
  const [isWrong, setWrong] = useState(false);
  const read = (text: string) => {
    setTyped(text);
    try {
      onChange(text.trim() === "" ? undefined : (JSON.parse(text) as Json));
      setWrong(false);
    } catch {
      setWrong(true);
    }
  };
  return (
    <Field {...shared} error={isWrong ? formTexts.notJson : error}>
      <Textarea
        value={typed}
        rows={4}
        spellCheck={false}
        className="font-mono text-s"
        onChange={(event) => read(event.target.value)}
      />
    </Field>
  );
}
