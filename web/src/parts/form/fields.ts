export { BooleanField } from "./BooleanField";
export { ChoiceField } from "./ChoiceField";
export { NumberField } from "./NumberField";
export { TextField } from "./TextField";

/** Properties of every field. */
export interface Shared {
  label: string;
  hint?: string;
  required?: boolean;
  error?: string | null;
}
