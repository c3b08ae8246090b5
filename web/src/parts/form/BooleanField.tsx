import { Field, Switch } from "@/design";
import type { Shared } from "./fields";

interface Props extends Shared {
  value: boolean;
  onChange: (value: boolean) => void;
}

export function BooleanField({ value, onChange, ...shared }: Props) {
  return (
    <Field {...shared} required={false}>
      <div className="flex min-h-9 touch:min-h-11 items-center">
        <Switch checked={value} onChange={onChange} />
      </div>
    </Field>
  );
}
