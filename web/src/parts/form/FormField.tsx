import type { ComponentProps } from "react";
import { Field, Input } from "@/design";
import type { Form } from "./useForm";

type TextName<Values> = {
  [Name in keyof Values]: Values[Name] extends string | null | undefined ? Name : never;
}[keyof Values] &
  string;

type FieldProps = Pick<ComponentProps<typeof Field>, "label" | "hint" | "aside" | "required">;

interface Props<Values extends object> extends FieldProps, Omit<ComponentProps<"input">, keyof FieldProps | "form"> {
  form: Pick<Form<Values>, "values" | "set" | "reasonOf">;
  name: TextName<Values>;
}

/** A text of a form with its label, and the reason why it was refused. */
export function FormField<Values extends object>({
  form,
  name,
  label,
  hint,
  aside,
  required,
  ...input
}: Props<Values>) {
  return (
    <Field label={label} hint={hint} aside={aside} required={required} error={form.reasonOf(name)}>
      <Input
        value={(form.values[name] as string | null | undefined) ?? ""}
        onChange={(event) => form.set({ [name]: event.target.value } as Partial<Values>)}
        {...input}
      />
    </Field>
  );
}
