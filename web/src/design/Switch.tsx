import { Switch as Radix } from "radix-ui";
import { useFieldProps } from "./Field";

interface Props {
  checked: boolean;
  onChange: (checked: boolean) => void;
  label?: string;
  disabled?: boolean;
}

export function Switch({ checked, onChange, label, disabled }: Props) {
  return (
    <Radix.Root
      checked={checked}
      onCheckedChange={onChange}
      disabled={disabled}
      aria-label={label}
      {...useFieldProps()}
      className="relative h-6 w-10 shrink-0 rounded-full border border-line-strong bg-hover transition-colors duration-100 data-[state=checked]:border-accent data-[state=checked]:bg-accent disabled:opacity-50"
    >
      <Radix.Thumb className="block size-4 translate-x-[3px] rounded-full bg-muted transition-transform duration-100 data-[state=checked]:translate-x-[19px] data-[state=checked]:bg-accent-ink" />
    </Radix.Root>
  );
}
