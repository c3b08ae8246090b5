import { Field, Switch } from "@/design";
import type { Shared } from "./fields";

interface Props extends Shared {
  value: boolean;
  disabled?: boolean;
  onChange: (value: boolean) => void;
}

export function BooleanField({ value, disabled, onChange, ...shared }: Props) {
  return (
    <Field {...shared} required={false}>
      <div className="flex min-h-9 touch:min-h-11 items-center">
        <Switch checked={value} disabled={disabled} onChange={onChange} />
      </div>
    </Field>
  );
}
